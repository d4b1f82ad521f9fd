package listen

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
)

func config(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNewSaysAllThatIsWrong(t *testing.T) {
	_, err := New(Config{Channel: strings.Repeat("c", 64), EchoChannel: "a\x00b", PollEvery: -1, EchoTimeout: -time.Second})
	for _, want := range []string{"bell is missing", "connection's configuration is missing", "64 bytes", "NUL", "poll interval is -1ns", "echo timeout is -1s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want %q in it", err, want)
		}
	}
	if _, err := New(Config{Bell: NewDoorbell(), Mode: PollingOnly}); err != nil {
		t.Errorf("polling needs no more than a bell: %v", err)
	}
}

func TestTheConnectionIsHardened(t *testing.T) {
	from := config(t, "postgres://u@h/d?connect_timeout=60")
	c := Config{Conn: from}.withDefaults().Conn
	if c.ConnectTimeout != connectTimeout {
		t.Errorf("connect timeout %v, want %v", c.ConnectTimeout, connectTimeout)
	}
	if got := c.RuntimeParams["application_name"]; got != "notifyworker listen" {
		t.Errorf("application_name %q", got)
	}
	if from.RuntimeParams["application_name"] != "" {
		t.Error("the caller's configuration was changed")
	}
	if c.ValidateConnect != nil {
		t.Error("one server is taken as it is: that it is a standby is said by its answer to LISTEN")
	}
	if c := (Config{Conn: config(t, "postgres://u@h1,h2/d")}).withDefaults().Conn; c.ValidateConnect == nil {
		t.Error("of several servers, a standby would do")
	}
	for name := range c.RuntimeParams {
		if strings.HasPrefix(name, "tcp_") {
			t.Errorf("%s is a start-up parameter: a pooler would refuse the connection", name)
		}
	}
}

// run runs a listener until the test ends it by calling stop.
func run(t *testing.T, cfg Config) (l *Listener, stop func()) {
	t.Helper()
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return l, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil after its context ended", err)
		}
		cfg.Bell.Close()
	}
}

func TestPollingOnlyRingsAtEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewDoorbell()
		l, stop := run(t, Config{Bell: b, Mode: PollingOnly, PollEvery: 250 * time.Millisecond})
		defer stop()
		<-l.Ready()
		for range 4 {
			start := time.Now()
			<-b.C()
			if got := b.Take(); !got.Only(Poll) || time.Since(start) != 250*time.Millisecond {
				t.Errorf("%v after %v, want poll after 250ms", got, time.Since(start))
			}
		}
		if s := l.State(); s.Hearing != Polling || s.String() != "polling every 250ms" {
			t.Errorf("state %v: %s", s.Hearing, s)
		}
	})
}

func TestDefaultsOfPolling(t *testing.T) {
	if got := (Config{Mode: PollingOnly}).withDefaults().PollEvery; got != time.Second {
		t.Errorf("polling only: every %v, want 1s", got)
	}
	if got := (Config{}).withDefaults().PollEvery; got != 30*time.Second {
		t.Errorf("as the net: every %v, want 30s", got)
	}
}

// newListener is a Listener that is not run: the tests below call what its goroutines would.
func newListener(t *testing.T) *Listener {
	l, err := New(Config{
		Bell: NewDoorbell(), Conn: config(t, "postgres://u@h/d"), Channel: "c", EchoChannel: "e",
		Log: zerolog.New(zerolog.NewTestWriter(t)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestHintsWithADueTimeRingThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListener(t)
		b := l.cfg.Bell
		defer b.Close()
		l.clock = serverClock{time.Now().Add(time.Hour), time.Now()} // the database's clock is ahead
		at := func(d time.Duration) string {
			return fmt.Sprintf(`{"due":%d}`, l.clock.now().Add(d).UnixMilli())
		}
		l.hear(t.Context(), "c", at(-time.Second), 1)
		if got := b.Take(); !got.Only(Notified) {
			t.Errorf("due already: %v, want notified", got)
		}
		for range 10_000 { // memory stays what it is, whatever they say
			l.hear(t.Context(), "c", at(29*time.Second), 1)
		}
		l.hear(t.Context(), "c", at(2*time.Second), 1)
		l.hear(t.Context(), "c", at(365*24*time.Hour), 1)
		start := time.Now()
		<-b.C()
		if got := b.Take(); !got.Only(Due) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v, want due after 2s", got, time.Since(start))
		}
		l.hear(t.Context(), "c", at(time.Hour), 1)
		if !b.NextDue().IsZero() {
			t.Error("a due time beyond the next poll is kept: that poll's look tells it anyway")
		}
	})
}

func TestWhatCannotBeReadMeansLookAtEverything(t *testing.T) {
	l := newListener(t)
	for i, payload := range []string{"", "{", strings.Repeat("x", maxPayload), `{"catalog":null}`} {
		l.hear(t.Context(), "c", payload, 1)
		if got := l.cfg.Bell.Take(); !got.Only(Notified) {
			t.Errorf("%.20q: %v, want notified", payload, got)
		}
		if got := l.State().Malformed; got != uint64(i+1) {
			t.Errorf("%.20q: %d counted, want %d", payload, got, i+1)
		}
	}
	l.hear(t.Context(), "e", "{", 1)
	if s := l.State(); s.Malformed != 4 || s.Echoes != 1 || l.cfg.Bell.Take() != 0 {
		t.Errorf("an echo has no payload to read and rings nobody: %+v", s)
	}
}

func TestRetriesGrowAreSpreadAndCapped(t *testing.T) {
	r := retry{}
	if d := r.next(); d != 0 {
		t.Errorf("first connection after %v, want at once", d)
	}
	for r.fails = 0; r.fails < 100; r.fails++ {
		want := min(retryFirst<<min(r.fails, 20), retryCap)
		if d := r.next(); d < want/2 || d > want {
			t.Errorf("after %d failures: %v, want %v to %v", r.fails, d, want/2, want)
		}
	}
	r = retry{tried: true}
	for r.deaf = 1; r.deaf < 100; r.deaf++ {
		if d := r.next(); d < retryDeafFirst/2 || d > retryDeafCap {
			t.Errorf("deaf for the %dth time: %v", r.deaf, d)
		}
	}
}

func TestWhichEchoIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListener(t)
		defer l.cfg.Bell.Close()
		awaited := func() bool { _, due := l.deadlines(1); return !due.IsZero() }
		l.EchoSent(time.Now())
		if awaited() {
			t.Error("awaited without a connection")
		}
		before := time.Now()
		time.Sleep(time.Second)
		l.conn, l.connected = new(pgx.Conn), time.Now()
		l.EchoSent(before)
		if awaited() {
			t.Error("one that was sent before LISTEN stood is awaited")
		}
		at := time.Now()
		time.Sleep(time.Millisecond)
		l.hear(t.Context(), "e", "1", 1)
		l.EchoSent(at)
		if awaited() {
			t.Error("one that was heard before its sending was acknowledged is awaited")
		}
		time.Sleep(time.Millisecond)
		l.EchoSent(time.Now())
		if !awaited() {
			t.Fatal("not awaited")
		}
		l.hear(t.Context(), "c", "{}", 1)
		if awaited() {
			t.Error("another notification proves the same")
		}
	})
}

func TestAThawedProcessGivesTheEchoItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListener(t)
		defer l.cfg.Bell.Close()
		l.conn, l.connected = new(pgx.Conn), time.Now()
		l.EchoSent(time.Now())
		_, due := l.deadlines(1)
		time.Sleep(time.Minute) // frozen: the echo lies in the socket
		l.checkEcho(time.Now(), due)
		if s := l.State(); s.Overdue != 0 {
			t.Error("the connection was dropped")
		}
		if _, again := l.deadlines(1); time.Until(again) != l.cfg.EchoTimeout {
			t.Errorf("its time ends in %v, want %v", time.Until(again), l.cfg.EchoTimeout)
		}
	})
}

func TestEchoChannelsFit(t *testing.T) {
	for _, id := range []string{"", "018f4a3e-0000-7000-8000-000000000000", strings.Repeat("x", 100)} {
		if err := checkChannel(EchoChannel(id)); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestWhoseTurnItIsNotRingsAMomentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewDoorbell()
		defer b.Close()
		keys := map[string]bool{}
		conn, err := pgx.ParseConfig("host=nowhere")
		if err != nil {
			t.Fatal(err)
		}
		l, err := New(Config{Bell: b, Conn: conn, Channel: "c", Turn: func(key string) time.Duration {
			keys[key] = true
			return 10 * time.Millisecond
		}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		l.hear(t.Context(), "c", "{}", 1)
		l.hear(t.Context(), "c", "{}", 2)
		if b.Take() != 0 {
			t.Error("it rang at once")
		}
		<-b.C()
		if d := time.Since(began); d != 10*time.Millisecond || len(keys) != 2 {
			t.Errorf("rang after %v, for %d keys", d, len(keys))
		}
		b.Take()
		l.hear(t.Context(), "c", "{", 1)
		if b.Take() != 1<<Notified {
			t.Error("what can't be read is everybody's turn")
		}
	})
}

// Others tell of seats in a payload of its own. Whatever only looks like it means work.
func TestSeatsThatMovedAreNoWork(t *testing.T) {
	b := NewDoorbell()
	defer b.Close()
	conn, err := pgx.ParseConfig("host=nowhere")
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for _, told := range []func(){func() { moved++ }, nil} {
		l, err := New(Config{Bell: b, Conn: conn, Channel: "c", Moved: told})
		if err != nil {
			t.Fatal(err)
		}
		l.hear(t.Context(), "c", SeatsMoved, 1)
		if rung := b.Take(); rung != 0 || moved != 1 {
			t.Errorf("it rang for %v, and told of %d moves", rung, moved)
		}
		for _, like := range []string{SeatsMoved + " ", `{"seats":"moved","type":"t"}`, `{"seats":"gone"}`, `{"seats":{}}`, `{"seats":"moved"`} {
			l.hear(t.Context(), "c", like, 1)
			if rung := b.Take(); rung != 1<<Notified || moved != 1 {
				t.Errorf("%s: it rang for %v, and told of %d moves", like, rung, moved)
			}
		}
		if s := l.State(); s.Notifications != 6 || s.Malformed != 1 {
			t.Errorf("state: %+v", s)
		}
	}
	// To whoever does not know it, it is a hint: to look once.
	if h, err := ParseHint(SeatsMoved); h != (Hint{}) || err != nil {
		t.Errorf("got %+v, %v", h, err)
	}
}

// Whose turn it is to look does not matter: all who listen have to know, and there are jobs for each.
func TestThatManyCommitsHandOverJobsIsNoUsualNotification(t *testing.T) {
	b := NewDoorbell()
	defer b.Close()
	conn, err := pgx.ParseConfig("host=nowhere")
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Config{Bell: b, Conn: conn, Channel: "c", Turn: func(string) time.Duration { return time.Hour }})
	if err != nil {
		t.Fatal(err)
	}
	l.hear(t.Context(), "c", ManyCommits, 1)
	if rung := b.Take(); rung != 1<<Many {
		t.Errorf("it rang for %v", rung)
	}
	for _, like := range []string{ManyCommits + " ", `{"commits":"few"}`, `{"commits":{}}`} {
		l.hear(t.Context(), "c", like, 1)
		if rung := b.Take(); rung.Has(Many) {
			t.Errorf("%s: it rang for %v", like, rung)
		}
	}
	if h, err := ParseHint(ManyCommits); h != (Hint{}) || err != nil {
		t.Errorf("to an older worker it is %+v, %v", h, err)
	}
}
