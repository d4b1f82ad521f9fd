package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"notifyworker/examples/pricing"
	"notifyworker/internal/embedded"
	"notifyworker/internal/pgtest"
	"notifyworker/migrations"
	"notifyworker/triggers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// install migrates and adds the sample application.
func install(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := migrations.Up(t.Context(), conn, migrations.Options{Triggers: triggers.Files}); err != nil {
		t.Fatal(err)
	}
	if err := pricing.Install(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
}

// shop is a migrated database with the sample application.
func shop(t *testing.T) (*pgtest.Database, *pgx.Conn) {
	t.Helper()
	db := pgtest.DB(t)
	conn := db.Conn(t)
	if err := pricing.Install(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	return db, conn
}

func parse(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// connectionLost is what the product's Retryable says of a restart.
func connectionLost(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "57P") || strings.HasPrefix(pg.Code, "08")
	}
	return true
}

// recomputeAll stands in for the workers: what was enqueued, catalog by catalog, and nothing else.
func recomputeAll(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	_, err := conn.Exec(t.Context(), `SELECT pricing.recompute(e.catalog_id, jsonb_agg(DISTINCT e.id)) FROM (
		SELECT j.catalog_id, x.id FROM notifyworker.jobs j, jsonb_array_elements(j.config -> 'productIds') x (id)
		UNION ALL
		SELECT a.catalog_id, x.id FROM notifyworker.job_additions a, jsonb_array_elements(a.product_ids) x (id)) e GROUP BY e.catalog_id`)
	if err != nil {
		t.Fatal(err)
	}
}

func judge(t *testing.T, conn *pgx.Conn) Verdict {
	t.Helper()
	v, err := Judge(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// lastTariffs is the obvious model: the last line of a file that is in order of publication.
func lastTariffs(t *testing.T, file io.Reader) map[string]string {
	t.Helper()
	var c Counts
	r, err := NewReader(file, &c.Bytes, func(Reject) {})
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	newest := map[string]time.Time{}
	for {
		u, err := r.Next()
		if err == io.EOF {
			return last
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range u.Rows {
			k := row.CatalogID + "/" + row.ProductID
			if !row.PublishedAt.Before(newest[k]) {
				last[k], newest[k] = row.UnitPrice, row.PublishedAt
			}
		}
	}
}

func wantTariffs(t *testing.T, conn *pgx.Conn, want map[string]string) {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT catalog_id || '/' || product_id, unit_price::text FROM pricing.supplier_tariffs")
	if err != nil {
		t.Fatal(err)
	}
	var key, price string
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&key, &price}, func() error {
		n++
		if want[key] != price {
			return fmt.Errorf("tariff of %s is %s, the file's last is %s", key, price, want[key])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if n != len(want) {
		t.Errorf("%d tariffs, want %d", n, len(want))
	}
}

func TestTheSampleIsPublishedAndEnqueued(t *testing.T) {
	db, conn := shop(t)
	var printed, all bytes.Buffer
	rejects := &RejectWriter{Print: &printed, First: 3, All: &all}
	l, err := New(Config{Source: bytes.NewReader(pricing.SampleTariffs()), Connection: parse(t, db.URL), Connections: 1, Rejected: rejects.Write})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rejects.Close(); err != nil {
		t.Fatal(err)
	}
	c := l.Counts()
	if c.Updates.Load() != 101 || c.Rejected.Load() != 5 || c.Rows.Load() < 300 {
		t.Errorf("counts: %v", c)
	}
	if c.Created.Load() != 6 || c.Created.Load()+c.Joined.Load() != c.Updates.Load() {
		t.Errorf("created %d, joined %d; want a job a catalog, the rest joined", c.Created.Load(), c.Joined.Load())
	}
	if got := strings.Count(printed.String(), "\n"); got != 4 {
		t.Errorf("printed %d lines, want three and a hint:\n%s", got, &printed)
	}
	if got := strings.Count(all.String(), "\n"); got != 6 {
		t.Errorf("wrote %d lines of rejects, want a header and 5:\n%s", got, &all)
	}
	wantTariffs(t, conn, lastTariffs(t, bytes.NewReader(pricing.SampleTariffs())))
	recomputeAll(t, conn)
	if v := judge(t, conn); v.Mismatches != 0 || v.Tariffs == 0 || v.Tariffs != v.Prices {
		t.Errorf("verdict %+v", v)
	}
	db.NoServerErrors(t)
}

// manyUpdates is a file in which each product's price changes in nearly every update of the same minute.
func manyUpdates(n int) []byte {
	var b bytes.Buffer
	b.WriteString(header)
	for i := range n {
		for k := range 3 {
			fmt.Fprintf(&b, "2024-01-01T00:%02d:00Z,u%d,c%d,p%d,%d.5\n", i/200%60, i, i%2, (i+k)%5, i)
		}
	}
	return b.Bytes()
}

func TestTheServerRestartsInTheMiddle(t *testing.T) {
	server := pgtest.Server(t, embedded.Config{})
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	install(t, conn)
	file := manyUpdates(3000)
	restarted := make(chan error, 1)
	var l *Loader
	l, err = New(Config{
		Source: bytes.NewReader(file), Connection: parse(t, server.URL("postgres")), Retryable: connectionLost,
		Published: func(Update) {
			if l.Counts().Updates.Load() == 500 {
				go func() { restarted <- server.Restart(context.Background(), embedded.Immediate) }()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close(t.Context())
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	c := l.Counts()
	if c.Updates.Load() != 3000 || c.Retries.Load() == 0 {
		t.Errorf("%v, tried again %d times; want all, and some again", c, c.Retries.Load())
	}
	if conn, err = pgx.Connect(t.Context(), server.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	wantTariffs(t, conn, lastTariffs(t, bytes.NewReader(file)))
	recomputeAll(t, conn)
	if v := judge(t, conn); v.Mismatches != 0 || v.Tariffs != 10 {
		t.Errorf("verdict %+v", v)
	}
}

func TestAStopFinishesTheUpdateUnderWay(t *testing.T) {
	db, conn := shop(t)
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var l *Loader
	l, err := New(Config{
		Source: bytes.NewReader(manyUpdates(5000)), Connection: parse(t, db.URL), Connections: 2,
		Published: func(Update) {
			if l.Counts().Updates.Load() >= 100 {
				stop(enough)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(ctx); !errors.Is(err, enough) {
		t.Fatalf("error %v, want what the context was stopped with", err)
	}
	n := l.Counts().Updates.Load()
	var inDatabase int64
	// Each update is one transaction, so it left its requests there or nothing at all.
	if err := conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM notifyworker.jobs) + (SELECT count(*) FROM notifyworker.job_additions)").Scan(&inDatabase); err != nil {
		t.Fatal(err)
	}
	if n < 100 || n > 110 || inDatabase != n {
		t.Errorf("published %d, the database has %d requests", n, inDatabase)
	}
	recomputeAll(t, conn)
	if v := judge(t, conn); v.Mismatches != 0 {
		t.Errorf("verdict %+v", v)
	}
}

func TestAnUpdateThatTheDatabaseRefusesIsReportedAndTheRestGoesOn(t *testing.T) {
	db, conn := shop(t)
	if _, err := conn.Exec(t.Context(), "ALTER TABLE pricing.supplier_tariffs ADD CHECK (product_id <> 'p2')"); err != nil {
		t.Fatal(err)
	}
	var rejects []Reject
	file := header + "2024-01-01,u1,c,p1,1\n2024-01-01,u2,c,p1,2\n2024-01-01,u2,c,p2,2\n2024-01-01,u3,c,p3,3\n"
	l, err := New(Config{Source: strings.NewReader(file), Connection: parse(t, db.URL), Connections: 1, Rejected: func(r Reject) { rejects = append(rejects, r) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(rejects) != 2 || rejects[0].Line != 3 || rejects[1].Line != 4 || !strings.Contains(rejects[0].Reason, "check constraint") {
		t.Errorf("rejects %+v, want both lines of u2", rejects)
	}
	wantTariffs(t, conn, map[string]string{"c/p1": "1", "c/p3": "3"})
}

func TestADatabaseWithoutTheQueueEndsTheLoad(t *testing.T) {
	db := pgtest.Empty(t)
	if err := pricing.Install(t.Context(), db.Conn(t)); err != nil {
		t.Fatal(err)
	}
	l, err := New(Config{Source: strings.NewReader(header + "2024-01-01,u1,c,p1,1\n"), Connection: parse(t, db.URL)})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "update u1 of line 2") {
		t.Errorf("error %v, want the update and what the server said", err)
	}
}

func TestSpeedKeepsTheFilesOwnTiming(t *testing.T) {
	db, _ := shop(t)
	file := header + "2024-01-01T00:00:00Z,u1,c,p1,1\n2024-01-01T00:10:00Z,u2,c,p1,2\n"
	l, err := New(Config{Source: strings.NewReader(file), Connection: parse(t, db.URL), Speed: 3000})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := l.Counts().Elapsed(); d < 200*time.Millisecond {
		t.Errorf("ten minutes at speed 3000 took %v, want at least 200ms", d)
	}
}

func TestNewSaysAllThatIsWrong(t *testing.T) {
	_, err := New(Config{Connections: 65, Speed: -1})
	for _, want := range []string{"no file", "no database", "connections is 65", "speed is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// TestHalfAYear publishes the real file. It is not part of the repository: NOTIFYWORKER_TARIFF_DATA names it, or its folder.
func TestHalfAYear(t *testing.T) {
	if testing.Short() {
		t.Log("left out by -short")
		return
	}
	path, err := halfYearFile()
	if err != nil {
		t.Logf("NOT RUN: the half-year tariff file is missing (%v). Set NOTIFYWORKER_TARIFF_DATA to tariff-updates-2010-12_2011-06.csv.gz or its folder.", err)
		return
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	db, conn := shop(t)
	l, err := New(Config{Source: bytes.NewReader(file), Connection: parse(t, db.URL)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log(l.Counts())
	if l.Counts().Rows.Load() != 96_881 || l.Counts().Rejected.Load() != 0 {
		t.Errorf("counts %v, want 96,881 rows", l.Counts())
	}
	wantTariffs(t, conn, lastTariffs(t, bytes.NewReader(file)))
	recomputeAll(t, conn)
	if v := judge(t, conn); v.Mismatches != 0 || v.Tariffs != v.Prices {
		t.Errorf("verdict %+v", v)
	}
	db.NoServerErrors(t)
}

func halfYearFile() (string, error) {
	path := os.Getenv("NOTIFYWORKER_TARIFF_DATA")
	if path == "" {
		path = filepath.Join("..", "..", "..", "shared", "data")
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, "tariff-updates-2010-12_2011-06.csv.gz")
		_, err = os.Stat(path)
	}
	return path, err
}
