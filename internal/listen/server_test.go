package listen_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifyworker/internal/embedded"
	"notifyworker/internal/faultproxy"
	"notifyworker/internal/listen"
	"notifyworker/internal/pgtest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

const patience = 2 * time.Minute // two busy cores are slow

// ear is a listener that runs, with what a test needs to talk to it.
type ear struct {
	t    *testing.T
	l    *listen.Listener
	bell *listen.Doorbell
	pool *pgxpool.Pool
	log  *syncLog
	cfg  listen.Config
	stop func()
}

type syncLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncLog) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncLog) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newEar runs a listener on listenURL and a pool on poolURL until the test ends.
func newEar(t *testing.T, listenURL, poolURL string, change func(*listen.Config)) *ear {
	t.Helper()
	conn, err := pgx.ParseConfig(listenURL)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(context.Background(), poolURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	e := &ear{t: t, bell: listen.NewDoorbell(), pool: pool, log: &syncLog{}}
	e.cfg = listen.Config{
		Bell: e.bell, Conn: conn, Channel: "work", EchoChannel: "echo_1", PollEvery: time.Hour, FallbackPollEvery: time.Hour,
		EchoEvery: 100 * time.Millisecond, EchoTimeout: patience, Log: zerolog.New(e.log),
	}
	e.cfg.SendEcho = func(ctx context.Context, channel, nonce string) error {
		_, err := pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel, nonce)
		return err
	}
	if change != nil {
		change(&e.cfg)
	}
	if e.l, err = listen.New(e.cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.l.Run(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not return after its context ended")
		}
		e.bell.Close()
	})
	t.Cleanup(e.stop)
	return e
}

// ring waits until the bell has rung for a cause.
func (e *ear) ring(c listen.Cause) {
	e.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case <-e.bell.C():
			if e.bell.Take().Has(c) {
				return
			}
		case <-deadline:
			e.t.Fatalf("the bell did not ring for %v; state: %+v\n%s", c, e.l.State(), e.log)
		}
	}
}

// await waits until the state is as wanted. Only the state tells, so it is asked now and then.
func (e *ear) await(what string, is func(listen.State) bool) listen.State {
	e.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		s := e.l.State()
		if is(s) {
			return s
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("waited in vain for: %s; state: %+v\n%s", what, s, e.log)
		}
	}
}

func (e *ear) exec(sql string, args ...any) {
	e.t.Helper()
	if _, err := e.pool.Exec(context.Background(), sql, args...); err != nil {
		e.t.Fatalf("%s: %v", sql, err)
	}
}

func TestListensOnOneQuietConnection(t *testing.T) {
	db := pgtest.Empty(t)
	e := newEar(t, db.URL, db.URL, nil)
	<-e.l.Ready()
	e.ring(listen.Connected)
	e.exec(`SELECT pg_notify('work', '{"catalog":"uk"}')`)
	e.ring(listen.Notified)
	e.exec(`SELECT pg_notify('work', '{"due":' || (extract(epoch FROM clock_timestamp() + interval '2 s') * 1000)::bigint || '}')`)
	e.ring(listen.Due)
	var n int
	var state, app string
	err := e.pool.QueryRow(context.Background(), `SELECT count(*), min(state), min(application_name) FROM pg_stat_activity WHERE pid = $1 AND xact_start IS NULL`,
		int64(e.l.State().BackendPID)).Scan(&n, &state, &app)
	if err != nil || n != 1 || state != "idle" || app != "notifyworker listen" {
		t.Errorf("session: %d, %s, %s, %v", n, state, app, err)
	}
	s := e.await("an echo", func(s listen.State) bool { return s.Echoes > 2 })
	if s.Hearing != listen.Listening || s.Connects != 1 || s.Overdue != 0 || s.Malformed != 0 {
		t.Errorf("state: %+v", s)
	}
}

func TestHostilePayloadsAreCountedAndAnswered(t *testing.T) {
	db := pgtest.Empty(t)
	channel := strings.Repeat("é", 31) + "x" // 63 bytes
	e := newEar(t, db.URL, db.URL, func(c *listen.Config) { c.Channel = channel })
	e.ring(listen.Connected)
	for i, payload := range []string{"", "{", strings.Repeat("x", 7999), `{"catalog":null}`, `{"type":[1]}`, `{"due":"x"}`, `"` + strings.Repeat("[", 5000)} {
		e.exec("SELECT pg_notify($1, $2)", channel, payload)
		e.ring(listen.Notified)
		e.await("its count", func(s listen.State) bool { return s.Malformed == uint64(i+1) }) // which comes after the ring
	}
	e.exec("SELECT pg_notify($1, '{}')", channel)
	e.ring(listen.Notified)
	if s := e.l.State(); s.Malformed != 7 || s.Connects != 1 {
		t.Errorf("state: %+v", s)
	}
}

// open counts file descriptors; 0 where the system does not show them.
func open() int {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(fds)
}

func TestALostConnectionIsReplacedWithoutALeak(t *testing.T) {
	const drops = 50
	db := pgtest.Empty(t)
	e := newEar(t, db.URL, db.URL, nil)
	e.ring(listen.Connected)
	e.exec("SELECT 1")
	leaks := goleak.IgnoreCurrent()
	fds, routines := open(), runtime.NumGoroutine()
	began := time.Now()
	for range drops {
		pid := e.l.State().BackendPID
		e.exec("SELECT pg_terminate_backend($1)", int64(pid))
		e.ring(listen.Connected)
		if s := e.l.State(); s.BackendPID == pid || s.Hearing != listen.Listening {
			t.Fatalf("rang for a connection before it was there: %+v", s)
		}
	}
	t.Logf("a reconnection took %v on average", time.Since(began)/drops)
	e.exec("SELECT pg_notify('work', '{}')")
	e.ring(listen.Notified)
	for deadline := time.Now().Add(patience); open() > fds+1 || runtime.NumGoroutine() > routines+4; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %d drops: %d descriptors (before: %d), %d goroutines (before: %d)", drops, open(), fds, runtime.NumGoroutine(), routines)
		}
	}
	// One that was ended stays on the server's list for a moment.
	e.await("one listening session", func(listen.State) bool {
		var sessions int
		err := e.pool.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'notifyworker listen'").Scan(&sessions)
		if err != nil {
			t.Fatal(err)
		}
		return sessions == 1
	})
	e.stop()
	e.pool.Close()
	if err := goleak.Find(leaks); err != nil {
		t.Error(err)
	}
}

// through is a URL by way of a proxy.
func through(t *testing.T, u string, p *faultproxy.Proxy) string {
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	parsed.Host = p.Addr()
	return parsed.String()
}

func TestABlackHoleIsNoticedByTheMissingEcho(t *testing.T) {
	s := pgtest.Server(t, embedded.Config{TCP: true})
	p := faultproxy.New(t, fmt.Sprintf("127.0.0.1:%d", s.Port()))
	e := newEar(t, through(t, s.URL("postgres"), p), s.URL("postgres"), func(c *listen.Config) { c.EchoTimeout = 3 * time.Second })
	e.await("an echo", func(s listen.State) bool { return s.Echoes > 0 })
	pid, overdue := e.l.State().BackendPID, e.l.State().Overdue
	p.Silence(true)
	e.ring(listen.Overdue)
	if s := e.l.State(); s.Hearing == listen.Listening || s.Overdue != overdue+1 || !strings.Contains(s.Reason, "own echo did not come back") {
		t.Errorf("state: %+v", s)
	}
	p.Silence(false)
	p.Reset() // the connection that is being dialled into the hole
	e.await("listening again", func(s listen.State) bool { return s.Hearing == listen.Listening && s.BackendPID != pid })
	e.exec("SELECT pg_notify('work', '{}')")
	e.ring(listen.Notified)
}

func TestAServerThatIsAwayForAWhile(t *testing.T) {
	s := pgtest.Server(t, embedded.Config{})
	e := newEar(t, s.SocketURL("postgres"), s.SocketURL("postgres"), func(c *listen.Config) { c.FallbackPollEvery = 50 * time.Millisecond })
	e.ring(listen.Connected)
	fds := open()
	if err := s.Halt(embedded.Fast); err != nil {
		t.Fatal(err)
	}
	e.ring(listen.Poll)
	e.await("the loss", func(s listen.State) bool { return s.Hearing == listen.Connecting && s.PollEvery == 50*time.Millisecond })
	for range 40 { // two seconds of polling alone
		e.ring(listen.Poll)
	}
	if n := open(); fds > 0 && n > fds+3 {
		t.Errorf("%d descriptors during the outage, %d before", n, fds)
	}
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	if err := s.Relaunch(ctx); err != nil {
		t.Fatal(err)
	}
	e.ring(listen.Connected)
	e.await("slow polling", func(s listen.State) bool { return s.Hearing == listen.Listening && s.PollEvery == time.Hour })
	if n := strings.Count(e.log.String(), "can't be had"); n > 3 {
		t.Errorf("said %d times:\n%s", n, e.log)
	}
}

func TestASwallowedListenIsCalledDeaf(t *testing.T) {
	db := pgtest.Empty(t)
	var swallow atomic.Bool // as a pooler in transaction mode does: LISTEN is accepted, nothing arrives
	swallow.Store(true)
	e := newEar(t, db.URL, db.URL, func(c *listen.Config) {
		c.EchoTimeout = 200 * time.Millisecond
		c.FallbackPollEvery = 100 * time.Millisecond
		send := c.SendEcho
		c.SendEcho = func(ctx context.Context, channel, nonce string) error {
			if swallow.Load() {
				return nil
			}
			return send(ctx, channel, nonce)
		}
	})
	e.ring(listen.Overdue)
	s := e.await("deaf", func(s listen.State) bool { return s.Hearing == listen.Deaf })
	if !strings.Contains(s.Reason, "nothing is heard") || s.PollEvery != 100*time.Millisecond {
		t.Errorf("state: %+v", s)
	}
	e.ring(listen.Poll)
	if !strings.Contains(e.log.String(), "running on polling alone every 100ms") {
		t.Errorf("not said:\n%s", e.log)
	}
	e.await("another try", func(s listen.State) bool { return s.Connects > 1 })
	if s := e.l.State(); s.Hearing != listen.Deaf {
		t.Errorf("a connection alone is no proof of hearing: %+v", s)
	}
	swallow.Store(false)
	e.await("hearing", func(s listen.State) bool { return s.Hearing == listen.Listening && s.PollEvery == time.Hour })
}

func TestAStandbyThatRefusesListenAndIsPromoted(t *testing.T) {
	ctx, done := context.WithTimeout(context.Background(), 2*patience)
	defer done()
	s := pgtest.Server(t, embedded.Config{Settings: map[string]string{"wal_level": "replica", "hot_standby": "on"}})
	if err := s.Halt(embedded.Fast); err != nil {
		t.Fatal(err)
	}
	// A server with this file replays what it has, and waits for more: a standby without a primary.
	signal := filepath.Join(s.DataDir(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(s.DataDir()); err != nil {
		t.Fatal(err)
	} else if err := chownLike(signal, info); err != nil {
		t.Fatal(err)
	}
	if err := s.Relaunch(ctx); err != nil {
		t.Fatal(err)
	}
	e := newEar(t, s.SocketURL("postgres"), s.SocketURL("postgres"), nil)
	st := e.await("deaf", func(s listen.State) bool { return s.Hearing == listen.Deaf })
	if !strings.Contains(st.Reason, "standby") || !strings.Contains(st.Reason, "LISTEN was refused") {
		t.Errorf("reason: %s", st.Reason)
	}
	e.exec("SELECT pg_promote(true, 60)")
	e.await("listening", func(s listen.State) bool { return s.Hearing == listen.Listening })
	e.exec("SELECT pg_notify('work', '{}')")
	e.ring(listen.Notified)
}

func TestThePasswordIsNeverSaid(t *testing.T) {
	e := newEar(t, "postgres://u:s3cret@127.0.0.1:1/d", "postgres://u:s3cret@127.0.0.1:1/d", nil)
	s := e.await("a failure", func(s listen.State) bool {
		return strings.Contains(s.Reason, "connect") && s.Reason != "not connected yet"
	})
	if strings.Contains(s.Reason+s.String()+e.log.String(), "s3cret") {
		t.Errorf("state: %s\n%s", s, e.log)
	}
	select {
	case <-e.l.Ready():
		t.Error("ready without a server")
	default:
	}
}
