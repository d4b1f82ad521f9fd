package main

import (
	"io"
	"strings"
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

func TestALoadThatPublishesNothingOfWhatItWasGivenFails(t *testing.T) {
	db := pgtest.DB(t)
	const header = "published_at,update_id,catalog_id,product_id,unit_price\n"
	for text, want := range map[string]int{
		header: exitOK,
		header + "2024-01-01,u1,c,p1,1\nyesterday,u2,c,p2,2\n": exitOK,
		header + "yesterday,u1,c,p1,1\n2024-01-01,u2\n":        exitFailure,
	} {
		code, stdout, stderr := notifyworkerWithInput(t, map[string]string{"DATABASE_URL": db.URL}, text, "load", "-")
		if code != want {
			t.Errorf("exit code %d, want %d for %s\n%s%s", code, want, text, stdout, stderr)
		}
		if want == exitFailure {
			wantAll(t, stderr, "nothing was published: all 2 lines of - were rejected")
		}
	}
}

func TestALoadThatWaitsFailsWhenRefreshesHave(t *testing.T) {
	db := pgtest.DB(t)
	conn := db.Conn(t)
	wait := func() (int, string) {
		code, stdout, stderr := notifyworkerWithInput(t, map[string]string{"DATABASE_URL": db.URL}, "published_at,update_id,catalog_id,product_id,unit_price\n", "load", "--wait", "-")
		return code, stdout + stderr
	}
	if code, text := wait(); code != exitOK {
		t.Fatalf("exit code %d: %s", code, text)
	}
	if _, err := conn.Exec(t.Context(), `ALTER TABLE notifyworker.jobs DISABLE TRIGGER USER;
		INSERT INTO notifyworker.jobs (type, status, config, attempts, started_at, finished_at, duration_ms)
		VALUES ('PRICE_REFRESH', 'FAILED', '{"catalogId": "c", "productIds": ["p"]}', 1, now(), now(), 1)`); err != nil {
		t.Fatal(err)
	}
	code, text := wait()
	if code != exitFailure || !strings.Contains(text, "1 price refreshes are FAILED") {
		t.Errorf("exit code %d: %s", code, text)
	}
	wantAll(t, text, "notifyworker: price refreshes have failed")
}
