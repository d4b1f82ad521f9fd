package bench

import (
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/pgtest"
)

// benchRun is a run on a database of the test's own.
func benchRun(t *testing.T, cfg Config) *run {
	t.Helper()
	cfg.DatabaseURL, cfg.Progress = pgtest.Empty(t).URL, io.Discard
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p, err := openPlace(t.Context(), cfg.DatabaseURL, "")
	if err != nil {
		t.Fatal(err)
	}
	r := &run{cfg: cfg, place: p, progress: newProgress(cfg.Progress, false, 1)}
	t.Cleanup(func() {
		r.progress.close()
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func mustScript(t *testing.T, r *run, sql, schema string) {
	t.Helper()
	if err := r.place.withConn(t.Context(), func(conn *pgx.Conn) error { return script(t.Context(), conn, sql, schema) }); err != nil {
		t.Fatal(err)
	}
}

// Each job is done as it is inserted here, so not more can be done in a time than is inserted in it. Each client is at its last
// commit when the time is over, and at its first one before it begins.
func TestNoMoreJobsAreDoneThanEnqueuedInTheTimeThatCounts(t *testing.T) {
	r := benchRun(t, Config{Slice: 200 * time.Millisecond})
	c := &contender{kind: bare}
	if err := r.prepare(t.Context(), []*contender{c}); err != nil {
		t.Fatal(err)
	}
	mustScript(t, r, `CREATE FUNCTION :"schema".do_at_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			NEW.status := 'COMPLETED'; NEW.started_at := clock_timestamp(); NEW.finished_at := clock_timestamp(); RETURN NEW; END $$;
		CREATE TRIGGER do_at_once BEFORE INSERT ON :"schema".jobs FOR EACH ROW EXECUTE FUNCTION :"schema".do_at_once()`, c.schema)
	const clients = 16
	made, done, err := r.insertTurn(t.Context(), c, clients)
	if err != nil {
		t.Fatal(err)
	}
	jobs := (done - made) * r.cfg.Slice.Seconds()
	if done == 0 || jobs > clients+0.5 {
		t.Errorf("%v jobs/s were done, %v enqueued: %v more, want at most the %d whose answer came too late", done, made, jobs, clients)
	}
}
