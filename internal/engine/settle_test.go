package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/webcall"

	"github.com/jackc/pgx/v5/pgconn"
)

func sqlError(code string) error { return &pgconn.PgError{Code: code, Message: "said " + code} }

// poison makes a recomputation that fails with err whenever one of the products is given.
func poison(err error, products ...string) func(context.Context, engine.Chunk) error {
	return func(_ context.Context, c engine.Chunk) error {
		for _, id := range texts(c.ProductIDs) {
			if slices.Contains(products, id) {
				return err
			}
		}
		return nil
	}
}

// letter is the one dead letter.
type letter struct {
	ID     int64
	IDs    []string
	Full   bool
	Error  string
	Failed []engine.FailedID
}

func (b bench) letter() (l letter) {
	b.t.Helper()
	b.eventually(`SELECT NOT EXISTS (SELECT FROM notifyworker.refreshes WHERE status = 'ACTIVE')`)
	var ids, failed []byte
	err := b.pool.QueryRow(context.Background(), `SELECT id, config->'productIds', config->'full' = 'true' IS TRUE, error, result->'failed'
		FROM notifyworker.jobs WHERE status = 'FAILED'`).Scan(&l.ID, &ids, &l.Full, &l.Error, &failed)
	must(b.t, err)
	var raw []json.RawMessage
	must(b.t, json.Unmarshal(ids, &raw))
	must(b.t, json.Unmarshal(failed, &l.Failed))
	l.IDs = texts(raw)
	return l
}

func TestOneBadProductDoesNotTakeOthersAlong(t *testing.T) {
	for _, err := range []error{
		sqlError("22P02"), sqlError("23514"), sqlError("P0001"), sqlError("NW422"), sqlError("54000"),
		sqlError("42703"), sqlError("57014"), sqlError("XX000"), // may be the products' fault
		&webcall.Error{Kind: webcall.Rejected, Status: 422, Err: errors.New("rejected")},
		&webcall.Error{Kind: webcall.Broken, Status: 500, Err: errors.New("broken")},
		&webcall.Error{Kind: webcall.TimedOut, Err: errors.New("timed out")},
	} {
		t.Run(err.Error(), func(t *testing.T) {
			b := newBench(t)
			r := &fake{do: poison(err, `"p777"`)}
			e := b.start(r)
			id, serr := e.Submit(context.Background(), b.job("c", ids(0, 1000)))
			must(t, serr)
			l := b.letter()
			if len(l.IDs) != 1 || l.IDs[0] != `"p777"` || len(l.Failed) != 1 || l.Failed[0].Error != err.Error() || !strings.Contains(l.Error, err.Error()) {
				t.Errorf("dead letter %+v", l)
			}
			if n := len(r.called()); n > 30 {
				t.Errorf("%d calls to find one of 1000", n)
			}
			if !value[bool](b, `SELECT status = 'DONE_WITH_ERRORS' AND recomputed = 999 AND failed_count = 1 AND done_count = 1000 FROM notifyworker.refreshes WHERE id = $1`, id) {
				t.Error("the other 999 were not recomputed")
			}
		})
	}
}

// A trigger of the user's that says RETURN NULL makes PostgreSQL pass over the INSERT without a word.
func TestADeadLetterThatATriggerPassesOverIsNotLost(t *testing.T) {
	b := newBench(t)
	r := &fake{do: poison(sqlError("22023"), `"p1"`)}
	e := b.start(r)
	j := b.job("c", ids(0, 3))
	b.exec(`CREATE SEQUENCE passed_over`)
	b.exec(`CREATE FUNCTION pass_over() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.passed_over'); RETURN NULL; END $$`)
	b.exec(`CREATE TRIGGER pass_over BEFORE INSERT ON notifyworker.jobs FOR EACH ROW EXECUTE FUNCTION pass_over()`)
	_, err := e.Submit(context.Background(), j)
	must(t, err)
	b.eventually(`SELECT last_value >= 2 FROM passed_over`) // the release was tried, and tried again
	b.exec(`DROP TRIGGER pass_over ON notifyworker.jobs`)
	if l := b.letter(); strings.Join(l.IDs, " ") != `"p1"` {
		t.Errorf("dead letter %+v", l)
	}
}

func TestADeadLetterIsReplayed(t *testing.T) {
	b := newBench(t)
	ctx := context.Background()
	r := &fake{do: poison(sqlError("22000"), `"p2"`, `3`)}
	e := b.start(r)
	_, err := e.Submit(ctx, b.job("c", `["p1", "p2", 3, "p4"]`))
	must(t, err)
	l := b.letter()
	if strings.Join(l.IDs, " ") != `"p2" 3` || !strings.HasPrefix(l.Error, "2 of 4 products could not be recomputed; the first, p2: ") {
		t.Errorf("dead letter %+v", l)
	}
	r.mu.Lock()
	r.do = nil
	r.mu.Unlock()
	if got := value[string](b, `SELECT outcome FROM notifyworker.replay($1)`, l.ID); got != "requeued" {
		t.Fatalf("replay: %s", got)
	}
	id, err := e.Submit(ctx, b.reserve())
	must(t, err)
	b.eventually(`SELECT status = 'DONE' AND product_ids = '["p2", 3]' FROM notifyworker.refreshes WHERE id = $1`, id)
	if s := b.status(l.ID); s != "COMPLETED" {
		t.Errorf("the replayed job is %s", s)
	}
}

func TestWorkIsBoundedWhenEverythingIsBad(t *testing.T) {
	b := newBench(t)
	r := &fake{do: func(context.Context, engine.Chunk) error { return sqlError("22000") }}
	e := b.start(r)
	_, err := e.Submit(context.Background(), b.job("c", ids(0, 20_000)))
	must(t, err)
	l := b.letter()
	if len(l.IDs) != 20_000 || !strings.Contains(l.Failed[0].Error, "fails together with") {
		t.Errorf("%d ids in the dead letter, the first: %+v", len(l.IDs), l.Failed[0])
	}
	if n := len(r.called()); n > 40*3+1000+64 {
		t.Errorf("%d calls", n)
	}
	if n := value[int](b, `SELECT jsonb_array_length(failed) FROM notifyworker.refreshes`); n != 100 {
		t.Errorf("%d failures kept in the refresh, want 100", n)
	}
}

func TestAnOutageIsWaitedFor(t *testing.T) {
	for _, err := range []error{
		io.EOF, sqlError("08006"), sqlError("40P01"), sqlError("53300"), sqlError("25006"), sqlError("57P01"), sqlError("55P03"),
		&webcall.Error{Kind: webcall.Unavailable, Status: 502, Err: errors.New("bad gateway")},
	} {
		t.Run(err.Error(), func(t *testing.T) {
			b := newBench(t)
			n := 0
			r := &fake{do: func(context.Context, engine.Chunk) error {
				if n++; n <= 12 {
					return err
				}
				return nil
			}}
			e := b.start(r)
			_, serr := e.Submit(context.Background(), b.job("c", ids(0, 10)))
			must(t, serr)
			b.eventually(`SELECT status = 'DONE' AND recomputed = 10 FROM notifyworker.refreshes`)
			for i, c := range r.called() {
				if len(c.ProductIDs) != 10 || c.Key() != r.called()[0].Key() {
					t.Errorf("call %d was of %d products, key %s", i, len(c.ProductIDs), c.Key())
				}
			}
		})
	}
}

func TestAnOutageThatDoesNotEnd(t *testing.T) {
	for _, err := range []error{
		io.EOF, &webcall.Error{Kind: webcall.Broken, Err: errors.New("broken")},
		&webcall.Error{Kind: webcall.Later, Delay: time.Millisecond, Err: errors.New("not now")},
	} {
		t.Run(err.Error(), func(t *testing.T) {
			b := newBench(t)
			r := &fake{do: func(_ context.Context, c engine.Chunk) error {
				if c.Number == 0 {
					return nil
				}
				return err
			}}
			e := b.start(r, impatient, func(c *engine.Config) { c.Chunk = 4 })
			_, serr := e.Submit(context.Background(), b.job("c", ids(0, 20)))
			must(t, serr)
			l := b.letter()
			if len(l.IDs) != 16 || !strings.Contains(l.Error, err.Error()) || !strings.HasPrefix(l.Error, "16 of 20 products") {
				t.Errorf("dead letter %+v", l)
			}
			for _, c := range r.called() {
				if c.Number > 1 {
					t.Fatalf("chunk %d was tried, though the one before it ended by an outage", c.Number)
				}
			}
		})
	}
}

func TestNotNowIsNoFailure(t *testing.T) {
	b := newBench(t)
	n := 0
	r := &fake{do: func(context.Context, engine.Chunk) error {
		if n++; n <= 20 {
			return &webcall.Error{Kind: webcall.Later, Delay: time.Millisecond, Err: errors.New("later")}
		}
		return nil
	}}
	e := b.start(r)
	_, err := e.Submit(context.Background(), b.job("c", ids(0, 3)))
	must(t, err)
	b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes`)
}

// "Retry-After: 0", a date that has passed, or NW429 with 0 seconds: it goes on for up to LaterFor, but not without a pause.
func TestNotNowButAtOnceIsNoBusyLoop(t *testing.T) {
	const tellings, pause = 4, 100 * time.Millisecond
	for name, bad := range map[string]string{"a chunk": "", "a part": `"p1"`} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			var asked []time.Time
			r := &fake{do: func(_ context.Context, c engine.Chunk) error {
				if bad != "" && len(c.ProductIDs) > 1 {
					return sqlError("22023")
				}
				if bad == "" || texts(c.ProductIDs)[0] == bad {
					if asked = append(asked, time.Now()); len(asked) <= tellings {
						return &webcall.Error{Kind: webcall.Later, Err: errors.New("later")}
					}
				}
				return nil
			}}
			e := b.start(r, func(c *engine.Config) { c.Patience.First, c.Patience.Cap = pause, pause })
			_, err := e.Submit(context.Background(), b.job("c", ids(0, 2)))
			must(t, err)
			b.eventually(`SELECT status = 'DONE' FROM notifyworker.refreshes`)
			if took := asked[tellings].Sub(asked[0]); took < tellings*pause/2 {
				t.Errorf("asked %d times within %v", tellings+1, took)
			}
		})
	}
}

// A product is not given up for one failure, whatever came before it that says nothing of the product.
func TestAnOutageIsNoFailureOfAProduct(t *testing.T) {
	b := newBench(t)
	said := []error{&webcall.Error{Kind: webcall.Unavailable, Err: errors.New("away")}, &webcall.Error{Kind: webcall.Later, Err: errors.New("later")}, sqlError("40P01"), sqlError("57014")}
	r := &fake{do: func(_ context.Context, c engine.Chunk) error {
		if len(c.ProductIDs) > 1 {
			return sqlError("22023")
		}
		if len(said) > 0 {
			err := said[0]
			said = said[1:]
			return err
		}
		return nil
	}}
	e := b.start(r)
	_, err := e.Submit(context.Background(), b.job("c", ids(0, 2)))
	must(t, err)
	b.eventually(`SELECT status <> 'ACTIVE' FROM notifyworker.refreshes`)
	if n := value[int](b, `SELECT failed_count FROM notifyworker.refreshes`); n != 0 {
		t.Errorf("%d products were given up", n)
	}
}

func TestChunksAndParts(t *testing.T) {
	b := newBench(t)
	r := &fake{do: poison(sqlError("22000"), `"p5"`)}
	e := b.start(r, func(c *engine.Config) { c.Chunk = 4 })
	id, err := e.Submit(context.Background(), b.job("c", ids(0, 10)))
	must(t, err)
	b.letter()
	var got []string
	for _, c := range r.called() {
		got = append(got, fmt.Sprintf("%d:%s:%d", c.Number, strings.TrimPrefix(c.Key(), fmt.Sprintf("refresh-%d-", id)), len(c.ProductIDs)))
	}
	want := "0:0:4 1:4:4 1:4:4 1:4:4 1:4+2:2 1:6+2:2 1:4+1:1 1:5+1:1 1:5+1:1 2:8:2"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("calls\n%s, want\n%s", s, want)
	}
}
