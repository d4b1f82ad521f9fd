package queue_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/queue"
)

func TestAWorkerSaysHowCommitsMayHandItJobs(t *testing.T) {
	for name, c := range map[string]struct{ most, told int }{"few ids": {7, 7}, "as many as a commit looks through": {0, 1000}} {
		t.Run(name, func(t *testing.T) {
			tb := newHandedTable(t, func(cfg *queue.Config) {
				cfg.MaxIDs, cfg.Types = c.most, map[string]queue.TypeSettings{"": {Lease: 9 * time.Second}, "slow": {Lease: time.Minute}}
			})
			var hands struct {
				Lease, IDs int
				Leases     map[string]int
			}
			if err := json.Unmarshal([]byte(value[string](tb, `SELECT hands::text FROM notifyworker.workers`)), &hands); err != nil {
				t.Fatal(err)
			}
			if hands.Lease != 9000 || hands.IDs != c.told || len(hands.Leases) != 1 || hands.Leases["slow"] != 60000 {
				t.Errorf("got %+v", hands)
			}
			for _, wanted := range []bool{true, false} { // to be told, and to be told nothing
				tb.wants(tb.Store)
				if refused, err := tb.WantNotify(t.Context(), wanted, false); refused != nil || err != nil {
					t.Fatal(refused, err)
				}
				tb.wish(wanted)
			}
		})
	}
}

// wish wants the worker to be told of jobs or not, and to be handed none.
func (tb table) wish(told bool) {
	tb.t.Helper()
	if !value[bool](tb, `SELECT wants_notify = $1 AND hands IS NULL FROM notifyworker.workers`, told) {
		tb.t.Errorf("the wish is %s", value[string](tb, `SELECT to_jsonb(w)::text FROM notifyworker.workers w`))
	}
}

func TestAWorkerThatCannotBeHandedJobsIsToldOfThem(t *testing.T) {
	for name, c := range map[string]struct {
		open func(tb table)
		why  string
	}{
		// It answers with a process that is not the one which was told at the log-in.
		"through a pooler": {func(tb table) {
			tb.exec(`CREATE SCHEMA pooled; CREATE FUNCTION pooled.pg_backend_pid() RETURNS integer LANGUAGE sql RETURN 0`)
			conn := tb.conn()
			if _, err := conn.Exec(tb.t.Context(), "SET search_path = pooled, pg_catalog"); err != nil {
				tb.t.Fatal(err)
			}
			if err := tb.OpenHands(tb.t.Context(), conn); err == nil {
				tb.t.Error("its session was opened")
			}
		}, "pooler"},
		"its connection was lost": {func(tb table) {
			tb.opens(tb.Store)
			conn := tb.conn()
			if err := conn.Close(tb.t.Context()); err != nil {
				tb.t.Fatal(err)
			}
			if err := tb.OpenHands(tb.t.Context(), conn); err == nil {
				tb.t.Error("its session was opened")
			}
			tb.endHands()
		}, "closed"},
		"it has hung up": {func(tb table) {
			if err := tb.opens(tb.Store).Close(tb.t.Context()); err != nil {
				tb.t.Fatal(err)
			}
			if err := tb.HungUp()(tb.t.Context()); err != nil {
				tb.t.Fatal(err)
			}
		}, "no session"},
		"it never had a session": {func(table) {}, "no session"},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t)
			c.open(tb)
			if err := tb.Register(t.Context(), queue.WorkerInfo{Host: "h", PID: 1, Version: "v", Slots: 4}); err != nil {
				t.Fatal(err)
			}
			refused, err := tb.WantNotify(context.Background(), true, true)
			if err != nil || refused == nil || !strings.Contains(refused.Error(), c.why) {
				t.Errorf("refused: %v, %v", refused, err)
			}
			tb.wish(true)
			if n := value[int](tb, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1853292549
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 0 {
				t.Errorf("%d sessions of hands are left", n)
			}
		})
	}
}
