package queue_test

import (
	"context"
	"strings"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
)

func TestAServerThatIsNotConnectedToSinceItTakesNoWritesIsReadOnly(t *testing.T) {
	db := pgtest.DB(t)
	conn := db.Conn(t)
	var name string
	if err := conn.QueryRow(t.Context(), "SELECT quote_ident(current_database())").Scan(&name); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "ALTER DATABASE "+name+" SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	separator := "?"
	if strings.Contains(db.URL, "?") {
		separator = "&"
	}
	s := openStore(t, db.URL+separator+"target_session_attrs=read-write")
	err := s.Writable(context.Background())
	if !queue.ReadOnly(err) || !queue.Retryable(err) || !strings.Contains(queue.Advice(err), "primary") {
		t.Errorf("%v: read-only %v, retryable %v, advice %q", err, queue.ReadOnly(err), queue.Retryable(err), queue.Advice(err))
	}
}

// Without sslmode pgx falls back to the same server without TLS: that is one server, whose refusal to write is told as such.
func TestOnlySeveralServersAreAskedWhetherTheyTakeWrites(t *testing.T) {
	for url, several := range map[string]bool{
		"postgres://u@h:5432/d":                 false,
		"postgres://u@h:5432/d?sslmode=disable": false,
		"postgres://u@h:5432,h:5433/d":          true,
		"postgres://u@a,b/d":                    true,
	} {
		cfg, err := queue.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		queue.Harden(cfg, "test")
		if got := cfg.ValidateConnect != nil; got != several {
			t.Errorf("%s: asked %v, want %v", url, got, several)
		}
	}
}
