package docs_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/pgtest"
)

func TestTheSQLOfTheProtocolDoesWhatThePageSays(t *testing.T) { runPage(t, "protocol.md") }

func TestTheProtocolsLocksAreThoseOfTheCode(t *testing.T) {
	code := read(t, "../triggers/10_locks.sql")
	classes := firstColumn(section(t, read(t, "protocol.md"), "## The lock"))
	if len(classes) != 8 {
		t.Fatalf("the page lists the locks %v", classes)
	}
	for _, c := range classes {
		if !strings.Contains(code, c) {
			t.Errorf("there is no lock of class %s", c)
		}
	}
}

func TestAPayloadHasTheMembersThatThePageShows(t *testing.T) {
	db := pgtest.DB(t)
	conn := db.Conn(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := conn.Exec(ctx, `LISTEN notifyworker; INSERT INTO notifyworker.workers (id, host, pid, version, slots, wants_notify) VALUES (gen_random_uuid(), 'h', 1, 'v', 1, true)`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `SELECT notifyworker.enqueue_price_refresh('garden', '["g1"]', delay => '1 day')`); err != nil {
		t.Fatal(err)
	}
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var payloads []string
	for _, b := range blocks(read(t, "protocol.md")) {
		if b.lang == "json" {
			payloads = append(payloads, strings.TrimSpace(b.text))
		}
	}
	if len(payloads) != 4 || payloads[2] != listen.ManyCommits || payloads[3] != listen.SeatsMoved {
		t.Fatalf("the page shows %q, want a job's, that of one handed over, %s, and %s", payloads, listen.ManyCommits, listen.SeatsMoved)
	}
	var want, got map[string]any
	if err := json.Unmarshal([]byte(payloads[0]), &want); err != nil {
		t.Fatal(err)
	}
	if json.Unmarshal([]byte(n.Payload), &got) != nil {
		t.Fatalf("payload %s", n.Payload)
	}
	due, isNumber := got["due"].(float64)
	if !isNumber || time.UnixMilli(int64(due)).Before(time.Now().Add(time.Hour)) {
		t.Errorf("due is %v", got["due"])
	}
	delete(want, "due")
	delete(got, "due")
	if len(want) != 3 || len(got) != 3 || got["type"] != want["type"] || got["tenant"] != want["tenant"] || got["catalog"] != want["catalog"] {
		t.Errorf("got %v, the page shows %v", got, want)
	}

	if _, err := db.Conn(t).Exec(ctx, `SELECT pg_advisory_lock(1853292549, 7)`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `UPDATE notifyworker.workers SET hands = '{"key": 7, "lease": 8000, "leases": {}, "ids": 10}'; SELECT notifyworker.enqueue_job('t')`); err != nil {
		t.Fatal(err)
	}
	if n, err = conn.WaitForNotification(ctx); err != nil {
		t.Fatal(err)
	}
	var shown, handed struct {
		Worker string
		Job    int64
	}
	for text, into := range map[string]any{payloads[1]: &shown, n.Payload: &handed} {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if len(handed.Worker) != len(shown.Worker) || handed.Job == 0 || shown.Job == 0 {
		t.Errorf("got %+v, the page shows %+v", handed, shown)
	}
}

// The race of variant cte needs a commit between two statements of one function call, which only the harness in integration can place; here the
// part that a page can show: under cte there are no additions, and clients wait for each other.
func TestVariantCteHasNoAdditionsAndWaits(t *testing.T) {
	db := pgtest.DB(t, pgtest.Variant("cte"))
	a, b := db.Conn(t), db.Conn(t)
	enqueue := `SELECT joined FROM notifyworker.enqueue_price_refresh('c', '["p1"]')`
	if _, err := a.Exec(t.Context(), "BEGIN; "+enqueue); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.Exec(t.Context(), enqueue)
		done <- err
	}()
	pgtest.WaitBlocked(t, db.Conn(t), b.PgConn().PID())
	if _, err := a.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var additions int
	if err := a.QueryRow(t.Context(), "SELECT count(*) FROM notifyworker.job_additions").Scan(&additions); err != nil || additions != 0 {
		t.Fatalf("%d additions, %v", additions, err)
	}
}
