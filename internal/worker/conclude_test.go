package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestEachReservationIsConcludedOnce(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			x := begin(t, handle(func(ctx context.Context, j queue.Job) queue.Outcome {
				n := rand.IntN(10)
				time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
				switch n {
				case 0:
					return queue.Outcome{Kind: queue.Refused, Err: errors.New("not now")}
				case 1:
					return queue.Outcome{Kind: queue.Failed}
				case 2:
					return queue.Outcome{Kind: queue.CompletedWithErrors, Result: json.RawMessage(`{"errors":[1]}`)}
				case 3:
					panic("at the disco")
				case 4:
					return queue.Outcome{Result: json.RawMessage(`[]`)}
				}
				return queue.Outcome{}
			}), func(c *Config, f *fakeStore) {
				c.Slots = 1 + rnd.IntN(20)
				f.fail = func(string) error {
					if rand.IntN(20) == 0 {
						return errGone
					}
					return nil
				}
			})
			for range 300 {
				x.enqueue("t", 0, 0)
				time.Sleep(time.Duration(rnd.IntN(5)) * time.Millisecond)
			}
			for range 20 { // locked rows come and go
				id := rnd.Int64N(300) + 1
				x.mu.Lock()
				x.locked[id] = true
				x.mu.Unlock()
				time.Sleep(30 * time.Millisecond)
				x.mu.Lock()
				delete(x.locked, id)
				x.mu.Unlock()
			}
			time.Sleep(time.Minute)
			for id := range int64(300) {
				if row := x.row(id + 1); row.status != "completed" && row.status != "failed" {
					t.Errorf("seed %d: job %d is %s after a minute", seed, id+1, row.status)
				}
			}
			x.setFail(nil)
			x.finish(t)
		})
	}
}

func TestWhatAHandlerDoesEndsOneAttempt(t *testing.T) {
	huge := strings.Repeat("x", 10<<20)
	for _, c := range []struct {
		name   string
		do     queue.HandlerFunc
		status string // after the first attempt
		err    string
		result string
	}{
		{"nothing", ok, "completed", "", ""},
		{"a result", func(context.Context, queue.Job) queue.Outcome {
			return queue.Outcome{Result: json.RawMessage(` {"n":9007199254740993}`)}
		}, "completed", "", ` {"n":9007199254740993}`},
		{"panic nil", func(context.Context, queue.Job) queue.Outcome { panic(nil) }, "pending", "panic called with nil", ""},
		{"panic with an error", func(context.Context, queue.Job) queue.Outcome { panic(errors.New("boom")) }, "pending", "panic: boom\n", ""},
		{"panic with a huge string", func(context.Context, queue.Job) queue.Outcome { panic(huge) }, "pending", "panic: xxx", ""},
		{"panic while it is described", func(context.Context, queue.Job) queue.Outcome { panic(bomb{}) }, "pending", "panic: ", ""},
		{"goexit", func(context.Context, queue.Job) queue.Outcome { runtime.Goexit(); return queue.Outcome{} }, "pending", "Goexit", ""},
		{"failure without a reason", func(context.Context, queue.Job) queue.Outcome { return queue.Outcome{Kind: queue.Failed} }, "pending", "no reason", ""},
		{"failure of dirty text", func(context.Context, queue.Job) queue.Outcome {
			return queue.Outcome{Kind: queue.Failed, Err: errors.New("a\x00b\xffc" + huge)}
		}, "pending", "a?b?c", ""},
		{"permanent", func(context.Context, queue.Job) queue.Outcome {
			return queue.Outcome{Kind: queue.Permanent, Err: errors.New("no such file")}
		}, "failed", "no such file", ""},
		{"a result of a megabyte too much", func(context.Context, queue.Job) queue.Outcome {
			return queue.Outcome{Result: json.RawMessage(`{"x":"` + huge + `"}`)}
		}, "pending", "the limit is 1048576", ""},
		{
			"a result that is no object", func(context.Context, queue.Job) queue.Outcome { return queue.Outcome{Result: json.RawMessage(`[1]`)} },
			"pending", "not a JSON object", "",
		},
		{
			"a result that is no JSON", func(context.Context, queue.Job) queue.Outcome { return queue.Outcome{Result: json.RawMessage(`{`)} },
			"pending", "not JSON", "",
		},
		{"a result with a NUL", func(context.Context, queue.Job) queue.Outcome {
			return queue.Outcome{Result: json.RawMessage(`{"a":"\u0000"}`)}
		}, "pending", "jsonb can't hold", ""},
		{"a failure with a bad result", func(context.Context, queue.Job) queue.Outcome {
			return queue.Outcome{Kind: queue.Failed, Err: errors.New("first"), Result: json.RawMessage(`1`)}
		}, "pending", "first (its result can't be stored", ""},
		{"an outcome that there is not", func(context.Context, queue.Job) queue.Outcome { return queue.Outcome{Kind: 99} }, "pending", "unknown kind", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := begin(t, handle(c.do), func(cfg *Config, _ *fakeStore) {
					cfg.Slots = 1
					cfg.Types = map[string]queue.TypeSettings{"t": {BackoffBase: time.Hour}}
				})
				id := x.enqueue("t", 0, 0)
				time.Sleep(time.Second)
				row := x.row(id)
				if row.status != c.status || row.Attempt != 1 || string(row.result) != c.result {
					t.Errorf("job is %s after %d attempts with result %.50s, want %s after 1 with %s", row.status, row.Attempt, row.result, c.status, c.result)
				}
				if !strings.Contains(row.err, c.err) || c.err == "" && row.err != "" {
					t.Errorf("error %.200q, want %q in it", row.err, c.err)
				}
				if len(row.err) > maxError || !utf8.ValidString(row.err) || strings.Contains(row.err, "\x00") {
					t.Errorf("the table would not take the error text: %d bytes", len(row.err))
				}
				if s := x.w.Stats(); s.Running != 0 || s.Unwritten != 0 {
					t.Errorf("the slot is not free: %d running, %d unwritten", s.Running, s.Unwritten)
				}
				x.finish(t)
			})
		})
	}
}

type bomb struct{}

func (bomb) Error() string { panic("again") }

func TestAnUnknownTypeIsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, nil, nil)
		id := x.enqueue("no such", 0, 0)
		time.Sleep(time.Second)
		if row := x.row(id); row.status != "failed" || row.err != "unknown job type: no such" {
			t.Errorf("job is %s: %s", row.status, row.err)
		}
		if n := x.w.Stats().Concluded[Conclusion{"other", "dead"}]; n != 1 {
			t.Errorf("counted: %v", x.w.Stats().Concluded)
		}
		x.finish(t)
	})
}

func TestAFailureReturnsWithBackoffUpToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		x := begin(t, handle(func(_ context.Context, j queue.Job) queue.Outcome {
			at = append(at, time.Now())
			return queue.Outcome{Kind: queue.Failed, Err: fmt.Errorf("attempt %d", j.Attempt)}
		}), func(c *Config, _ *fakeStore) {
			c.Types = map[string]queue.TypeSettings{"t": {BackoffBase: time.Second, BackoffCap: 4 * time.Second, MaxAttempts: 4}}
		})
		id := x.enqueue("t", 0, 0)
		pass(time.Minute)
		if row := x.row(id); row.status != "failed" || row.Attempt != 4 || row.err != "attempt 4" {
			t.Errorf("job is %s after %d attempts: %s", row.status, row.Attempt, row.err)
		}
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if got := at[i+1].Sub(at[i]); got < want/2 || got > want+100*time.Millisecond {
				t.Errorf("attempt %d came after %v, want %v to %v", i+2, got, want/2, want)
			}
		}
		x.finish(t)
	})
}

func TestARefusalMayNameItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		x := begin(t, handle(func(context.Context, queue.Job) queue.Outcome {
			if at = append(at, time.Now()); len(at) > 1 {
				return queue.Outcome{}
			}
			return queue.Outcome{Kind: queue.Refused, Err: errors.New("in flight"), Delay: 42 * time.Second, Result: json.RawMessage(`{"by":7}`)}
		}), nil)
		id := x.enqueue("t", 0, 0)
		pass(time.Second)
		if row := x.row(id); row.err != "in flight" || string(row.result) != `{"by":7}` {
			t.Errorf("refused: %s, result %s", row.err, row.result)
		}
		pass(time.Minute)
		if d := at[1].Sub(at[0]); d < 42*time.Second || d > 42*time.Second+100*time.Millisecond {
			t.Errorf("came back after %v, want 42s", d)
		}
		x.finish(t)
	})
}

func TestATimeoutEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stubborn atomic.Bool
		release := make(chan struct{})
		x := begin(t, handle(func(ctx context.Context, j queue.Job) queue.Outcome {
			if stubborn.Load() {
				<-release
				return queue.Outcome{}
			}
			<-ctx.Done()
			return queue.Outcome{Kind: queue.Failed, Err: ctx.Err()}
		}), func(c *Config, _ *fakeStore) {
			c.Types = map[string]queue.TypeSettings{"t": {Timeout: 3 * time.Second, BackoffBase: time.Hour, BackoffCap: time.Hour}}
		})
		id := x.enqueue("t", 0, 0)
		time.Sleep(2 * time.Second)
		if row := x.row(id); row.status != "running" {
			t.Errorf("after 2 s: %s", row.status)
		}
		time.Sleep(2 * time.Second)
		if row := x.row(id); row.status != "pending" || !strings.Contains(row.err, "timed out after 3s") {
			t.Errorf("after 4 s: %s, %s", row.status, row.err)
		}
		stubborn.Store(true)
		id = x.enqueue("t", 0, 0)
		time.Sleep(3*time.Second + abandonAfter + time.Second)
		if row := x.row(id); row.status != "pending" || !strings.Contains(row.err, "did not stop") {
			t.Errorf("stubborn: %s, %s", row.status, row.err)
		}
		if s := x.w.Stats(); s.Running != 1 || s.Unwritten != 0 {
			t.Errorf("work that does not stop keeps its slot: %d running, %d unwritten", s.Running, s.Unwritten)
		}
		close(release)
		x.finish(t)
	})
}

func TestConclusionsAreWrittenAtOnceAndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), func(c *Config, f *fakeStore) {
			c.Slots = 400
			f.hook = func(_ context.Context, method string) {
				if method == "Complete" {
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
		x.enqueue("t", 0, 0)
		time.Sleep(time.Second)
		for range 400 {
			x.enqueue("t", 0, 0)
		}
		time.Sleep(time.Second)
		x.mu.Lock()
		if n := len(x.batches); x.batches[0] != 1 || n > 4 {
			t.Errorf("batches %v: want the lone one at once and the crowd in a few", x.batches)
		}
		x.mu.Unlock()
		x.finish(t)
	})
}

func TestOneResultThatTheTableRefusesHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(func(_ context.Context, j queue.Job) queue.Outcome {
			if j.ID == 13 || j.ID == 27 {
				kind := queue.Completed
				if j.ID == 27 {
					kind = queue.Failed
				}
				return queue.Outcome{Kind: kind, Err: errors.New("x"), Result: json.RawMessage(`{"poison":1}`)}
			}
			return queue.Outcome{}
		}), func(c *Config, f *fakeStore) {
			c.Slots = 50
			c.Types = map[string]queue.TypeSettings{"t": {BackoffBase: time.Hour, BackoffCap: time.Hour}}
			f.refuse = func(r json.RawMessage) error {
				if strings.Contains(string(r), "poison") {
					return errors.New("numeric field overflow")
				}
				return nil
			}
		})
		for range 50 {
			x.enqueue("t", 0, 0)
		}
		time.Sleep(time.Second)
		for id := range int64(50) {
			row := x.row(id + 1)
			if id+1 == 13 || id+1 == 27 {
				if row.status != "pending" || !strings.Contains(row.err, "can't be stored: numeric field overflow") {
					t.Errorf("job %d is %s: %s", id+1, row.status, row.err)
				}
			} else if row.status != "completed" {
				t.Errorf("job %d is %s", id+1, row.status)
			}
		}
		x.finish(t)
	})
}

func TestEscapesNUL(t *testing.T) {
	for s, want := range map[string]bool{
		`{"a":"\u0000"}`: true, `{"a":"\\u0000"}`: false, `{"a":"\\\u0000"}`: true,
		`{"a":"\\u0000\u0000"}`: true, `{}`: false, `{"a":"u0000"}`: false,
	} {
		if got := escapesNUL([]byte(s)); got != want {
			t.Errorf("%s: got %v", s, got)
		}
	}
}

func FuzzBounded(f *testing.F) {
	f.Add("žluťoučký kůň", 7)
	f.Add("\xff\xfe\x00", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = 10 + max(n, 0)%100
		got := bounded(s, n)
		if len(got) > n || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Errorf("%q bounded to %d: %q", s, n, got)
		}
		if len(s) <= n && utf8.ValidString(s) && !strings.Contains(s, "\x00") && got != s {
			t.Errorf("%q was changed to %q", s, got)
		}
	})
}

// Rights that are missing, or a schema of another version, are somebody's to repair: what was done stays done meanwhile.
func TestWhatWasDoneIsStoredWhenTheSetupIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := begin(t, handle(ok), nil)
		denied := &pgconn.PgError{Code: "42501", Message: "permission denied for function complete"}
		x.setFail(func(method string) error {
			if method == "Complete" {
				return denied
			}
			return nil
		})
		for range 3 {
			x.enqueue("t", 0, 0)
		}
		pass(time.Minute)
		for id := range int64(3) {
			if row := x.row(id + 1); row.status != "running" {
				t.Errorf("job %d is %s: %s", id+1, row.status, row.err)
			}
		}
		x.setFail(nil)
		pass(10 * time.Second)
		x.wantCompleted(t, 1, 2, 3)
		x.finish(t)
	})
}
