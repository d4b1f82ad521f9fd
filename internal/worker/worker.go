package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"

	"github.com/rs/zerolog"
)

// Config is complete when Store and Bell are set; every other zero value is a working default.
type Config struct {
	Store    Store
	Bell     *listen.Doorbell         // rung by a listen.Listener; only this worker waits for it
	Handlers map[string]queue.Handler // by job type; a job of another type fails as unknown
	Types    map[string]queue.TypeSettings
	Info     queue.WorkerInfo // who this is, for the others; Slots is filled in
	ID       string           // the same as the Store's, for the log

	// Seat is where this worker listens. Nil: it always does.
	Seat Seat

	// TakesHanded is for a listener whose Hands are this worker: commits hand it jobs.
	TakesHanded bool

	// Polling is for a bell that nobody but a clock rings: the worker looks when it rings, asks for no notifications, and
	// does not wait for due times. It is the mode that the other one is measured against.
	Polling bool

	Slots        int           // jobs at once; 0 means 8
	BeatEvery    time.Duration // between signs of life; 0 means 4s
	EchoChannel  string        // where this process hears the echo of its beats, see listen.Config; "" for none
	SweepEvery   time.Duration // between looks for what dead workers left; 0 means 30s
	DrainTimeout time.Duration // how long running handlers may take after a stop; 0 means 20s, negative means none

	Maintain    []func(context.Context) // called when a lease may have ended and at each sweep; each bounds its own time
	MaintainAll []func(context.Context) // called at each sweep for what is slow, by a goroutine of its own
	Beaten      func(sentAt time.Time)  // called after each successful beat, whose echo a listener may wait for; may be nil

	Log zerolog.Logger
}

const (
	defaultSlots = 8
	maxSlots     = 10_000
	defaultBeat  = 4 * time.Second
	defaultSweep = 30 * time.Second
	defaultDrain = 20 * time.Second

	// statementTimeout ends a call of the Store that hangs, so that no lock held by somebody stops a loop for good.
	statementTimeout = 10 * time.Second
)

// Worker runs jobs. Make it by New; Run it once.
type Worker struct {
	cfg       Config
	store     Store
	log       zerolog.Logger
	slots     *slots
	stats     *stats
	lanes     concluder
	gathering gathering
	leases    leaseClock
	between   soonest // when to look for jobs that committed late …
	back      soonest // … and very late
	turns     turns
	pace      pace
	place     place
	roster    roster
	handovers handovers

	rearm atomic.Bool // beat → loop: workers.wants_notify may not have been what the loop believes
	ran   atomic.Bool
}

// New checks a configuration and says all that is wrong with it at once.
func New(cfg Config) (*Worker, error) {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&cfg.BeatEvery, defaultBeat)
	set(&cfg.SweepEvery, defaultSweep)
	set(&cfg.DrainTimeout, defaultDrain)
	cfg.DrainTimeout = max(cfg.DrainTimeout, 0)
	if cfg.Slots == 0 {
		cfg.Slots = defaultSlots
	}
	cfg.Info.Slots = cfg.Slots
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &Worker{
		cfg: cfg, store: cfg.Store, log: cfg.Log, slots: newSlots(cfg.Slots), stats: newStats(cfg.Handlers), pace: usualPace(),
		gathering: gathering{worthIt: cfg.Slots <= gatherUpTo && !cfg.Polling},
	}
	w.lanes = newConcluder(w)
	w.leases.poke = make(chan struct{}, 1)
	w.between.poke = make(chan struct{}, 1)
	w.back.poke = make(chan struct{}, 1)
	w.handovers.lease = w.shortestLease()
	w.roster.news = make(chan struct{}, 1)
	if cfg.ID != "" {
		w.log = w.log.With().Str("worker_id", cfg.ID).Logger()
	}
	return w, nil
}

func (c Config) validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("a store is missing"))
	}
	if c.Bell == nil {
		errs = append(errs, errors.New("a bell is missing: who would wake this worker?"))
	}
	if c.Slots < 1 || c.Slots > maxSlots {
		errs = append(errs, fmt.Errorf("slots is %d: give 1 to %d", c.Slots, maxSlots))
	}
	for name, d := range map[string]time.Duration{"beat interval": c.BeatEvery, "sweep interval": c.SweepEvery} {
		if d < time.Millisecond {
			errs = append(errs, fmt.Errorf("%s is %v: give at least 1ms", name, d))
		}
	}
	for name, h := range c.Handlers {
		if name == "" || h == nil {
			errs = append(errs, fmt.Errorf("handler of type %q: type and handler are both needed", name))
		}
	}
	for name, s := range c.Types {
		if err := s.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("type %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// settings are the rules of a type; "" in Types has the rules of those that are not named.
func (c Config) settings(jobType string) queue.TypeSettings {
	s, ok := c.Types[jobType]
	if !ok {
		s = c.Types[""]
	}
	return s.WithDefaults(jobType)
}

// Run works until stop ends, drains, and returns once all that it started has ended: nil when every job was concluded, else
// an error that says what was left to its lease, or that handlers go on which did not stop when told to. When end ends, Run returns at once and leaves everything to the leases.
// Trouble with the database never ends it: that is logged at each change of state, and tried again.
func (w *Worker) Run(stop, end context.Context) error {
	if w.ran.Swap(true) {
		return errors.New("worker: Run is called for the second time")
	}
	stop, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(end, cancel)() // an end is a stop too

	var stopped atomic.Pointer[time.Time] // the drain's clock: the loop's last statements count
	defer context.AfterFunc(stop, func() {
		now := time.Now()
		stopped.Store(&now)
	})()
	background, halt := context.WithCancel(end)
	defer halt()
	var parts, handlers sync.WaitGroup
	parts.Go(func() { w.lanes.run(background) })
	parts.Go(func() { w.heartbeat(background) })
	if w.register(stop) {
		parts.Go(func() { w.beat(background) })
		parts.Go(func() { w.maintain(stop) })
		parts.Go(func() { w.maintainAll(stop) })
		parts.Go(func() { w.behind(stop, &w.between, w.store.LookBetween, "look for jobs that committed late") })
		parts.Go(func() { w.behind(stop, &w.back, w.store.LookBack, "look for jobs that have been due for long") })
		w.loop(stop, end, &handlers)
	}
	began := time.Now()
	if at := stopped.Load(); at != nil {
		began = *at
	}
	err := w.drain(end, began)
	halt()
	parts.Wait()
	if err == nil {
		handlers.Wait()
	}
	if _, pending := w.slots.counts(); pending == 0 { // else the database does not answer: the last beat's age tells, too
		w.deregister(end)
	}
	return err
}

// statement bounds one call of the Store. It outlives a stop by a second, since a reservation whose answer is not awaited is
// a job that waits for its lease to end.
func (w *Worker) statement(ctx, end context.Context) (context.Context, context.CancelFunc) {
	s, cancel := context.WithTimeout(end, statementTimeout)
	var t *time.Timer
	var mu sync.Mutex
	forget := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		t = time.AfterFunc(time.Second, cancel)
	})
	return s, func() {
		forget()
		mu.Lock()
		defer mu.Unlock()
		if t != nil {
			t.Stop()
		}
		cancel()
	}
}
