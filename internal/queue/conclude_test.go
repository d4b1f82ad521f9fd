package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"notifyworker/internal/queue"
)

func TestCompleteConcludesManyAndSortsTheRest(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t', jsonb_build_object('n', g)) FROM generate_series(1, 4) g`)
	js := tb.reserve(4).Jobs
	if err := tb.Progress(t.Context(), js[0].ID, js[0].Token, json.RawMessage(`{"half": 1}`)); err != nil {
		t.Fatal(err)
	}
	// The third is locked by somebody, the fourth has been rescued meanwhile.
	tx, err := tb.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // it may be over by then
	if _, err := tx.Exec(t.Context(), `SELECT FROM notifyworker.jobs WHERE id = $1 FOR UPDATE`, js[2].ID); err != nil {
		t.Fatal(err)
	}
	tb.exec(`UPDATE notifyworker.jobs SET lock_token = gen_random_uuid() WHERE id = $1`, js[3].ID)
	cs := []queue.Completion{
		{ID: js[0].ID, Token: js[0].Token, Result: json.RawMessage(`{"rows": 9007199254740993}`)},
		{ID: js[1].ID, Token: js[1].Token, WithErrors: true},
		{ID: js[2].ID, Token: js[2].Token},
		{ID: js[3].ID, Token: js[3].Token},
	}
	got, err := tb.Complete(t.Context(), cs)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Done)
	if !slices.Equal(got.Done, []int64{js[0].ID, js[1].ID}) || !slices.Equal(got.Busy, []int64{js[2].ID}) || !slices.Equal(got.Lost, []int64{js[3].ID}) {
		t.Fatalf("got %+v", got)
	}
	if s := value[string](tb, `SELECT result::text FROM notifyworker.jobs WHERE id = $1`, js[0].ID); s != `{"half": 1, "rows": 9007199254740993}` {
		t.Errorf("result is %s", s)
	}
	if s := tb.status(js[1].ID); s != "COMPLETED_WITH_ERRORS" {
		t.Errorf("status is %s", s)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err = tb.Complete(t.Context(), cs[2:3]); err != nil || len(got.Done) != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got, err = tb.Complete(t.Context(), cs[:1]); err != nil || len(got.Lost) != 1 {
		t.Fatalf("a second conclusion: got %+v, %v", got, err)
	}
}

func TestProgressAndExtendSayWhatIsLost(t *testing.T) {
	tb := newTable(t)
	tb.exec(`SELECT notifyworker.enqueue_job('t'), notifyworker.enqueue_job('t')`)
	js := tb.reserve(2).Jobs
	tb.exec(`SELECT notifyworker.cancel($1)`, js[0].ID)
	if err := tb.Progress(t.Context(), js[0].ID, js[0].Token, nil); !errors.Is(err, queue.ErrLost) {
		t.Errorf("progress: %v", err)
	}
	lost, _, err := tb.Extend(t.Context(), []queue.Held{{ID: js[0].ID, Token: js[0].Token}, {ID: js[1].ID, Token: js[1].Token}})
	if err != nil || !slices.Equal(lost, []int64{js[0].ID}) {
		t.Errorf("lost %v, %v", lost, err)
	}
}
