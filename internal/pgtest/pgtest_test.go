package pgtest

import (
	"context"
	"fmt"
	"testing"
)

func TestDatabasesAreIsolated(t *testing.T) {
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			d := DB(t)
			c := d.Conn(t)
			if _, err := c.Exec(t.Context(), "LISTEN same"); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Pool(t).Exec(t.Context(), "SELECT pg_notify('same', $1)", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			n, err := c.WaitForNotification(t.Context())
			if err != nil || n.Payload != fmt.Sprint(i) {
				t.Fatal(n, err)
			}
			d.NoServerErrors(t)
		})
	}
}

func TestWaitBlocked(t *testing.T) {
	d := Empty(t)
	holder, waiter := d.Conn(t), d.Conn(t)
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(context.Background(), "SELECT pg_advisory_lock(1)")
		done <- err
	}()
	WaitBlocked(t, holder, waiter.PgConn().PID())
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
