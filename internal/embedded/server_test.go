package embedded

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const patience = time.Minute // for anything; two busy cores are slow

// choices are the servers that the tests run on; each must be had on a machine that runs them.
var choices = []string{"npm", "15"}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func show(t *testing.T, c *pgx.Conn, setting string) string {
	t.Helper()
	var v string
	if err := c.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestStartsAndLeavesNothing(t *testing.T) {
	for _, choice := range choices {
		t.Run(choice, func(t *testing.T) {
			s := start(t, Config{Choice: choice, Settings: map[string]string{"work_mem": "5MB"}})
			c := connect(t, s.URL("postgres"))
			for setting, want := range map[string]string{"fsync": "off", "synchronous_commit": "on", "work_mem": "5MB", "TimeZone": "UTC", "server_encoding": "UTF8"} {
				if got := show(t, c, setting); got != want {
					t.Errorf("%s: got %s, want %s", setting, got, want)
				}
			}
			if _, err := c.Exec(t.Context(), "SELECT 1/0"); err == nil {
				t.Error("1/0 succeeded")
			}
			log, err := s.Log()
			if err != nil || !strings.Contains(log, "<postgres> ERROR:  division by zero") {
				t.Errorf("log (%v): %s", err, log)
			}
			t.Log(s.Describe())
			pid, home := s.PID(), s.home
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d is still there: %v", pid, err)
			}
			if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("folder %s is still there: %v", home, err)
			}
			if err := s.Halt(Fast); !errors.Is(err, ErrStopped) {
				t.Errorf("halt after stop: got %v, want ErrStopped", err)
			}
		})
	}
}

func TestTCPAsksForThePassword(t *testing.T) {
	s := start(t, Config{TCP: true, Durable: true})
	c := connect(t, s.URL("postgres"))
	if got := show(t, c, "fsync"); got != "on" {
		t.Errorf("fsync is %s on a durable server", got)
	}
	connect(t, s.SocketURL("postgres"))
	wrong := strings.Replace(s.URL("postgres"), s.Password(), "wrong", 1)
	if c, err := pgx.Connect(t.Context(), wrong); err == nil {
		c.Close(t.Context())
		t.Error("a wrong password was let in")
	}
}

func TestRestartKeepsDataAndAddress(t *testing.T) {
	s := start(t, Config{TCP: true})
	url := s.URL("postgres")
	if _, err := connect(t, url).Exec(t.Context(), "CREATE TABLE kept AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{Fast, Immediate, Killed} {
		old := s.PID()
		if err := s.Restart(t.Context(), mode); err != nil {
			t.Fatal(err)
		}
		if s.PID() == old || s.PID() == 0 {
			t.Errorf("%s: pid was %d and is %d", mode, old, s.PID())
		}
		var n int
		if err := connect(t, url).QueryRow(t.Context(), "SELECT n FROM kept").Scan(&n); err != nil || n != 7 {
			t.Errorf("%s: got %d, %v, want 7", mode, n, err)
		}
	}
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); len(commandLine(s.PID())) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a killed server does not end")
		}
	}
	if err := s.Relaunch(t.Context()); err != nil {
		t.Fatal(err)
	}
	connect(t, url)
}

func TestPauseFreezesSessionsAndResumeThawsThem(t *testing.T) {
	s := start(t, Config{})
	c := connect(t, s.URL("postgres"))
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
		answered <- err
	case <-time.After(100 * time.Millisecond): // the absence of an event has no event
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	// Stopping a paused server thaws it: nothing has to be killed because it does not react.
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := s.Halt(Immediate); err != nil {
		t.Fatal(err)
	}
	if log, err := s.Log(); err != nil || !strings.Contains(log, "received immediate shutdown request") || strings.Contains(log, "recalcitrant children") {
		t.Errorf("log (%v): %s", err, log)
	}
}
