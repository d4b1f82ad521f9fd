package observe_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifyworker/internal/engine"
	"notifyworker/internal/listen"
	"notifyworker/internal/observe"
	"notifyworker/internal/queue"
	"notifyworker/internal/worker"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// parts are of a process that works, each to be changed by a test.
type parts struct {
	worker   worker.Stats
	listener listen.State
	engine   engine.Stats
	store    *store
}

type (
	workerPart   struct{ *parts }
	listenerPart struct{ *parts }
	enginePart   struct{ *parts }
	poolPart     struct{}
	chorePart    struct{}
	sentPart     struct{}
)

func (p workerPart) Stats() worker.Stats   { return p.worker }
func (p listenerPart) State() listen.State { return p.listener }
func (p enginePart) Stats() engine.Stats   { return p.engine }
func (poolPart) Stat() *pgxpool.Stat       { return thePool.Stat() }
func (sentPart) Count() uint64             { return 12 }
func (sentPart) Pings() uint64             { return 3 }
func (chorePart) Purged() queue.Purged     { return queue.Purged{Jobs: 7} }

// thePool is never connected.
var thePool = func() *pgxpool.Pool {
	p, err := pgxpool.New(context.Background(), "host=/nowhere")
	if err != nil {
		panic(err)
	}
	return p
}()

// store answers from memory.
type store struct {
	depth    []queue.Depth
	pressure queue.Pressure
	err      error
	asked    atomic.Int64
	atOnce   atomic.Int64
	most     atomic.Int64
}

func (s *store) enter() func() {
	s.asked.Add(1)
	s.most.Store(max(s.most.Load(), s.atOnce.Add(1)))
	return func() { s.atOnce.Add(-1) }
}

func (s *store) Depth(context.Context) ([]queue.Depth, error) {
	defer s.enter()()
	return s.depth, s.err
}

func (s *store) Pressure(context.Context) (queue.Pressure, error) {
	defer s.enter()()
	return s.pressure, s.err
}

func (s *store) Additions(context.Context) (int64, time.Duration, error) {
	defer s.enter()()
	return 3, time.Second, s.err
}
func (s *store) Writable(context.Context) error { return s.err }

func newParts() *parts {
	return &parts{
		worker:   worker.Stats{Slots: 8, Phase: worker.Working, Turned: time.Now(), Concluded: map[worker.Conclusion]uint64{{Type: "t", Outcome: "completed"}: 2, {Type: "t", Outcome: "lost"}: 1}, Took: map[string]worker.Histogram{"t": {}}},
		listener: listen.State{Hearing: listen.Listening, Since: time.Now()},
		store:    &store{depth: []queue.Depth{{Type: "t", Pending: 5, Due: 2, Running: 1, OldestDue: time.Second}}},
	}
}

func (p *parts) observer(cfg observe.Config) *observe.Observer {
	o := observe.New(cfg)
	p.watch(o, "h:1/a", cfg.Log)
	return o
}

func (p *parts) watch(o *observe.Observer, name string, log zerolog.Logger) *observe.Database {
	d := o.Add(name, log)
	d.Watch(observe.Parts{Worker: workerPart{p}, Listener: listenerPart{p}, Engine: enginePart{p}, Pool: poolPart{}, Sent: sentPart{}, Store: p.store, Retention: chorePart{}, Types: []string{"PRICE_REFRESH"}})
	return d
}

// get asks for a page.
func get(t *testing.T, o *observe.Observer, path string, headers ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	o.Handler().ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

func TestMetricsAreWellFormed(t *testing.T) {
	o := newParts().observer(observe.Config{Version: "v1"})
	problems, err := testutil.GatherAndLint(o.Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	code, text := get(t, o, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, text)
	}
	for _, want := range []string{
		`notifyworker_build_info{go_version="go`, `notifyworker_jobs_concluded_total{database="h:1/a",outcome="completed",type="t"} 2`, `notifyworker_jobs_lost_total{database="h:1/a"} 1`,
		`notifyworker_jobs_concluded_total{database="h:1/a",outcome="dead",type="PRICE_REFRESH"} 0`, // or its first increase would be none
		`notifyworker_queue_jobs{database="h:1/a",state="waiting",type="t"} 3`, `notifyworker_queue_jobs{database="h:1/a",state="due",type="t"} 2`, `notifyworker_queue_jobs{database="h:1/a",state="due",type="PRICE_REFRESH"} 0`,
		`notifyworker_listener_state{database="h:1/a",state="listening"} 1`, `notifyworker_wakes_total{cause="freed_slot",database="h:1/a"} 0`, `notifyworker_wakes_total{cause="handed",database="h:1/a"} 0`, `notifyworker_wakes_total{cause="seated",database="h:1/a"} 0`, `notifyworker_look_seconds_count{database="h:1/a",found="jobs"} 0`, `notifyworker_purged_jobs_total{database="h:1/a"} 7`, `notifyworker_statements_total{database="h:1/a"} 12`,
		`notifyworker_additions{database="h:1/a"} 3`, `notifyworker_ready{database="h:1/a"} 1`, `notifyworker_scrape_errors_total{database="h:1/a"} 0`, "go_goroutines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s", want)
		}
	}
}

func TestADatabaseThatDoesNotAnswerCostsOnlyItsOwnMetrics(t *testing.T) {
	p := newParts()
	p.store.err = errors.New("gone")
	o := p.observer(observe.Config{})
	code, text := get(t, o, "/metrics")
	if code != http.StatusOK || !strings.Contains(text, `notifyworker_slots{database="h:1/a"} 8`) || !strings.Contains(text, `notifyworker_scrape_errors_total{database="h:1/a"} 3`) ||
		strings.Contains(text, "notifyworker_queue_jobs") || !strings.Contains(text, `notifyworker_ready{database="h:1/a"} 0`) {
		t.Errorf("status %d:\n%s", code, text)
	}
}

func TestTheDatabaseIsAskedBySomeOnlyNowAndThenAndByOneAtATime(t *testing.T) {
	p := newParts()
	o := p.observer(observe.Config{})
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 5 {
				if _, err := o.Registry().Gather(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
	// Two rounds at most, should the first have been slow.
	if n := p.store.asked.Load(); n > 6 || p.store.most.Load() != 1 {
		t.Errorf("asked %d times, %d at once", n, p.store.most.Load())
	}
}

func TestTypesMadeUpByClientsMakeNoSeriesWithoutEnd(t *testing.T) {
	p := newParts()
	p.store.depth = nil
	for i := range 500 {
		p.store.depth = append(p.store.depth, queue.Depth{Type: strings.Repeat("x", i+1), Pending: 1})
	}
	_, text := get(t, p.observer(observe.Config{}), "/metrics")
	if n := strings.Count(text, `notifyworker_queue_waiting_ids{`); n != 51 {
		t.Errorf("%d series, want 50 and the others", n)
	}
	if !strings.Contains(text, `notifyworker_queue_jobs{database="h:1/a",state="waiting",type="other"} 451`) {
		t.Errorf("the others are not counted:\n%s", text)
	}
}
