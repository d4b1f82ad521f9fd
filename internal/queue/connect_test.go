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
