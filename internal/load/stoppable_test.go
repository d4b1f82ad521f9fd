package load

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// told tells of each Read when it begins.
type told struct {
	io.Reader
	reads chan struct{}
}

func (r told) Read(p []byte) (int, error) {
	r.reads <- struct{}{}
	return r.Reader.Read(p)
}

// stopsOnAnIdlePipe stops a load that has read text from a pipe and waits for more.
func stopsOnAnIdlePipe(t *testing.T, text string, published int64) {
	t.Helper()
	db, conn := shop(t)
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		to.Close()   //nolint:errcheck // it ends the read that was left to itself
		from.Close() //nolint:errcheck // only read from
	})
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	source := told{from, make(chan struct{}, 10)}
	in := make(chan Update, 10)
	l, err := New(Config{Source: source, Connection: parse(t, db.URL), Connections: 1, Published: func(u Update) { in <- u }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	if _, err := to.WriteString(text); err != nil {
		t.Fatal(err)
	}
	<-source.reads
	<-source.reads // after the one that has got all there is
	for range published {
		<-in
	}
	stop(enough)
	select {
	case err := <-ended:
		if !errors.Is(err, enough) {
			t.Errorf("error %v, want what the context was stopped with", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the load still waits for its source")
	}
	var tariffs int64
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pricing.supplier_tariffs").Scan(&tariffs); err != nil {
		t.Fatal(err)
	}
	if n := l.Counts().Updates.Load(); n != published || tariffs != published {
		t.Errorf("%d updates and %d tariffs are published, want %d", n, tariffs, published)
	}
}

// Of the last update it can't be known whether more belongs to it.
func TestAStopDoesNotWaitForAnIdlePipe(t *testing.T) {
	stopsOnAnIdlePipe(t, header+"2024-01-01,u1,c,p1,1\n2024-01-01,u2,c,p2,2\n2024-01-01,u3,c,p3,3\n2024-01-01,u3,c,p4,3\n2024-", 2)
}

func TestAStopDoesNotWaitForTheHeader(t *testing.T) { stopsOnAnIdlePipe(t, "published_at,", 0) }
