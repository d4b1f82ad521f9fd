package main

import (
	"io"
	"syscall"
	"testing"

	"notifyworker/internal/pgtest"
)

func TestALoadWhoseInputIsIdleEndsAtASignalAndSaysWhatIsPublished(t *testing.T) {
	db := pgtest.DB(t)
	conn := db.Conn(t)
	l := start(t, map[string]string{"DATABASE_URL": db.URL}, "load", "-")
	if _, err := io.WriteString(l.in.(io.Writer), "published_at,update_id,catalog_id,product_id,unit_price\n2024-01-01,u1,c,p1,1\n2024-01-01,u2,c,p2,2\n"); err != nil {
		t.Fatal(err)
	}
	until(t, conn, "a job is enqueued", "SELECT count(*) = 1 FROM notifyworker.jobs")
	l.signal(syscall.SIGTERM)
	if code := l.code(); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	wantAll(t, l.out.String(), "updates published  1\n", "stopped: the file was read up to line 3, and only what is counted above is published")
}
