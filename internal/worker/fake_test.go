package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore is a jobs table in memory that rings a bell as the database does: only while somebody wants it, decided by each
// commit before it becomes visible.
type fakeStore struct {
	bell  *listen.Doorbell
	lease time.Duration
	takes time.Duration // how long each call takes

	mu         sync.Mutex
	rows       map[int64]*fakeRow
	serial     int64
	tokens     int64
	registered bool
	alive      int
	wantingIDs []string
	wants      bool
	committing map[int]bool // commits that have decided whether to ring and are not visible yet
	commits    int
	calls      map[string]int
	ends       map[string][]string                      // token → every conclusion that was accepted
	fail       func(method string) error                // nil: no failures
	hook       func(ctx context.Context, method string) // called at the start of each call, unlocked
	refuse     func(result json.RawMessage) error       // a result that the table does not take
	batches    []int                                    // sizes of Complete's
	locked     map[int64]bool                           // rows that somebody else has locked
	echoes     []string
	notices    int // beats that told the others
	beats      []time.Time
	leased     []time.Time   // calls of Extend
	between    time.Duration // how long until the next look in between, as Reserve says; 0: none is needed
	back       time.Duration // … and the next look back
	backTakes  time.Duration // how much longer it takes than other calls
	hidden     bool          // looks see nothing of what waits
	far        bool          // and only a look back does
	unseen     bool          // a lease has ended that looks don't see
	stuck      error         // what jobs raise that can't be rescued, beside those that can
	hands      bool          // commits hand jobs to the worker
	noHands    error         // why they can't
	hand       func(int64)   // tells the worker of a job that it was handed; nil: nobody does
	met        bool          // somebody looks after whatever the worker takes …
	metOnly    int64         // … or after this job; 0: any
	let        []int64
	from       time.Time // where the last look started
}

type fakeRow struct {
	queue.Job
	status  string // pending, running, completed, failed
	leaseAt time.Time
	result  json.RawMessage
	err     string
	causes  []queue.Cause

	handed    bool // and not taken back
	taken     bool // its lock is held
	elsewhere bool // handed to another worker, which lets it lie
}

func newFake(bell *listen.Doorbell) *fakeStore {
	return &fakeStore{
		bell: bell, lease: 8 * time.Second, takes: time.Millisecond, rows: map[int64]*fakeRow{}, committing: map[int]bool{},
		calls: map[string]int{}, ends: map[string][]string{}, locked: map[int64]bool{},
	}
}

// call is the start of each method: it takes its time, and fails when that is asked for.
func (f *fakeStore) call(ctx context.Context, method string) error {
	f.mu.Lock()
	f.calls[method]++
	fail, hook := f.fail, f.hook
	f.mu.Unlock()
	if hook != nil {
		hook(ctx, method)
	}
	if !sleep(ctx, f.takes) {
		return ctx.Err()
	}
	if fail != nil {
		return fail(method)
	}
	return nil
}

func (f *fakeStore) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *fakeStore) setFail(fail func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// enqueue commits one job; the commit itself takes so long.
func (f *fakeStore) enqueue(jobType string, delay, commit time.Duration) int64 {
	f.mu.Lock()
	f.serial++
	f.commits++
	id, me := f.serial, f.commits
	ring, hands := f.wants, f.hands
	created := time.Now()
	f.committing[me] = true
	f.mu.Unlock()
	if commit > 0 {
		time.Sleep(commit)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[id] = &fakeRow{Job: queue.Job{ID: id, Type: jobType, CreatedAt: created, RunAfter: created.Add(delay), MaxAttempts: 5, CatalogID: "c"}, status: "pending"}
	delete(f.committing, me)
	if hands && delay <= 0 {
		f.give(f.rows[id], time.Now())
		f.rows[id].handed = true
		if f.hand != nil {
			f.hand(id)
		}
		return id
	}
	if ring {
		if delay > 0 {
			f.bell.RingIn(delay)
		} else {
			f.bell.Ring(listen.Notified)
		}
	}
	return id
}

// ReserveBriefly keeps all that it may to itself.
func (f *fakeStore) ReserveBriefly(ctx context.Context, n int) (queue.Reservation, error) {
	r, err := f.Reserve(ctx, n)
	if len(r.Jobs) > 0 && len(r.Jobs) < n {
		r.Brief, r.NextDue, r.NextLease = true, 0, -1
	}
	return r, err
}

func (f *fakeStore) Reserve(ctx context.Context, n int) (queue.Reservation, error) {
	if err := f.call(ctx, "Reserve"); err != nil {
		return queue.Reservation{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	r := queue.Reservation{NextDue: -1, NextLease: -1, LookBetween: within(f.between), LookBack: within(f.back), LastFrom: f.from}
	f.from = time.Time{}
	if f.hidden {
		f.from = now
		return r, nil
	}
	all := make([]*fakeRow, 0, len(f.rows))
	for _, row := range f.rows {
		all = append(all, row)
	}
	slices.SortFunc(all, func(a, b *fakeRow) int { return cmp.Or(a.RunAfter.Compare(b.RunAfter), cmp.Compare(a.ID, b.ID)) })
	for _, row := range all {
		switch {
		case row.status == "running":
			if left := max(0, row.leaseAt.Sub(now)); r.NextLease < 0 || left < r.NextLease {
				r.NextLease = left
			}
		case row.status != "pending":
		case row.RunAfter.After(now) || f.locked[row.ID]:
			if left := max(0, row.RunAfter.Sub(now)); r.NextDue < 0 || left < r.NextDue {
				r.NextDue = left
			}
		case len(r.Jobs) < n:
			f.give(row, now)
			r.Jobs = append(r.Jobs, row.Job)
		}
	}
	if len(r.Jobs) == n {
		r.NextDue, r.NextLease = 0, -1
	}
	return r, nil
}

// give makes a row the worker's.
func (f *fakeStore) give(row *fakeRow, now time.Time) {
	f.tokens++
	row.status, row.StartedAt, row.leaseAt = "running", now, now.Add(f.lease)
	row.handed = false
	row.Attempt++
	row.Token = fmt.Sprintf("%d#%d", row.ID, f.tokens)
	row.LeaseUntil = row.leaseAt
	f.ends[row.Token] = nil
}

// Take fails with its connection, in whose place the listener makes another one.
func (f *fakeStore) Take(ctx context.Context, id int64) (*queue.Handed, bool, error) {
	if err := f.call(ctx, "Take"); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hands = false
		time.AfterFunc(time.Millisecond, func() { f.bell.Ring(listen.Connected) })
		return nil, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	row := f.rows[id]
	switch {
	case row == nil || row.status != "running" || row.elsewhere || !row.handed:
		return nil, false, nil
	case f.looksAfter(id):
		return nil, true, nil
	}
	row.taken = true
	return &queue.Handed{Job: row.Job, Lease: time.Until(row.leaseAt)}, false, nil
}

// looksAfter says whether somebody looks after a job.
func (f *fakeStore) looksAfter(id int64) bool { return f.met && (f.metOnly == 0 || f.metOnly == id) }

func (f *fakeStore) TakeBack(ctx context.Context, own []queue.Own) (out []queue.Job, again []int64, err error) {
	if err := f.call(ctx, "TakeBack"); err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range own {
		id, row := o.ID, f.rows[o.ID]
		switch {
		case row == nil || row.status != "running" || row.elsewhere || row.Token != o.Token:
		case row.taken || f.looksAfter(id):
			again = append(again, id)
		default:
			delete(f.ends, row.Token)
			row.Attempt--
			f.give(row, time.Now())
			out = append(out, row.Job)
		}
	}
	return out, again, nil
}

// asked is how many calls were made to have jobs that were handed over.
func (f *fakeStore) asked() int { return f.count("Take") + f.count("TakeBack") }

func (f *fakeStore) HungUp() func(context.Context) error {
	return func(ctx context.Context) error { return f.call(ctx, "HungUp") }
}

func (f *fakeStore) setMet(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.met = is
}

func (f *fakeStore) Let(j queue.Handed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.let = append(f.let, j.ID)
	f.rows[j.ID].taken = false
}

func (f *fakeStore) Mine(ctx context.Context) (out []queue.Own, err error) {
	if err := f.call(ctx, "Mine"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, row := range f.rows {
		if row.status == "running" && !row.elsewhere {
			out = append(out, queue.Own{ID: id, Token: row.Token})
		}
	}
	return out, nil
}

func (f *fakeStore) TakeOver(ctx context.Context, ids []int64, n int, ago time.Duration) (out []queue.Job, err error) {
	if err := f.call(ctx, "TakeOver"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if ids == nil {
		for id, row := range f.rows {
			if time.Since(row.CreatedAt) >= ago {
				ids = append(ids, id)
			}
		}
	}
	for _, id := range ids {
		if row := f.rows[id]; row != nil && row.status == "running" && row.elsewhere && len(out) < n {
			f.give(row, time.Now())
			row.elsewhere = false
			out = append(out, row.Job)
		}
	}
	return out, nil
}

// within is when so much time has passed, the zero time for none.
func within(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// LookBetween has the looks see again what waits, unless it lies further back.
func (f *fakeStore) LookBetween(ctx context.Context) (queue.Behind, error) {
	if err := f.call(ctx, "LookBetween"); err != nil {
		return queue.Behind{Again: within(f.between)}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b := queue.Behind{Job: f.hidden && !f.far}
	if f.unseen {
		b.Lease = time.Now()
	}
	f.hidden, f.unseen = f.hidden && f.far, false
	return b, nil
}

// LookBack has the looks see again what waits.
func (f *fakeStore) LookBack(ctx context.Context) (queue.Behind, error) {
	again := within(f.back)
	if err := f.call(ctx, "LookBack"); err != nil {
		return queue.Behind{Again: again}, err
	}
	if !sleep(ctx, f.backTakes) {
		return queue.Behind{Again: again}, ctx.Err()
	}
	return queue.Behind{Job: f.show()}, nil
}

// hide has looks start behind all that waits; far, also those in between.
func (f *fakeStore) hide(far bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hidden, f.far = true, far
}

// show ends that, and says whether it was so.
func (f *fakeStore) show() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.hidden
	f.hidden = false
	return was
}

func (f *fakeStore) mine(id int64, token string) (row *fakeRow, busy bool) {
	row = f.rows[id]
	if row == nil || row.status != "running" || row.Token != token {
		return nil, false
	}
	return row, f.locked[id]
}

func (f *fakeStore) Complete(ctx context.Context, cs []queue.Completion) (out queue.Completions, err error) {
	if err := f.call(ctx, "Complete"); err != nil {
		return out, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range cs {
		if f.refuse != nil {
			if err := f.refuse(c.Result); err != nil {
				return out, err
			}
		}
	}
	f.batches = append(f.batches, len(cs))
	for _, c := range cs {
		row, busy := f.mine(c.ID, c.Token)
		switch {
		case row == nil:
			out.Lost = append(out.Lost, c.ID)
		case busy:
			out.Busy = append(out.Busy, c.ID)
		default:
			row.status, row.result = "completed", c.Result
			f.ends[c.Token] = append(f.ends[c.Token], "completed")
			out.Done = append(out.Done, c.ID)
		}
	}
	return out, nil
}

func (f *fakeStore) Requeue(ctx context.Context, r queue.Return) (queue.Returned, error) {
	if err := f.call(ctx, "Requeue"); err != nil {
		return queue.Returned{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil && len(r.Note) > 0 {
		if err := f.refuse(r.Note); err != nil {
			return queue.Returned{}, err
		}
	}
	row, busy := f.mine(r.ID, r.Token)
	if row == nil {
		return queue.Returned{Verdict: queue.Gone}, nil
	}
	if busy {
		return queue.Returned{Verdict: queue.Busy}, nil
	}
	row.err, row.causes = r.Err, append(row.causes, r.Cause)
	if r.Note != nil {
		row.result = r.Note
	}
	f.ends[r.Token] = append(f.ends[r.Token], string(r.Cause))
	if r.Cause == queue.CausePermanent || r.Cause != queue.CauseReleased && row.Attempt >= r.Limit {
		row.status = "failed"
		return queue.Returned{Verdict: queue.Dead}, nil
	}
	if r.Cause == queue.CauseReleased {
		row.Attempt--
	}
	row.status, row.RunAfter = "pending", time.Now().Add(r.Delay)
	if f.wants {
		f.bell.RingIn(r.Delay)
	}
	return queue.Returned{Verdict: queue.Requeued}, nil
}

func (f *fakeStore) Progress(ctx context.Context, id int64, token string, result json.RawMessage) error {
	if err := f.call(ctx, "Progress"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	row, _ := f.mine(id, token)
	if row == nil {
		return fmt.Errorf("progress: %w", queue.ErrLost)
	}
	row.result = result
	return nil
}

func (f *fakeStore) Extend(ctx context.Context, held []queue.Held) (lost, busy []int64, err error) {
	if err := f.call(ctx, "Extend"); err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leased = append(f.leased, time.Now())
	for _, h := range held {
		switch row, _ := f.mine(h.ID, h.Token); {
		case row == nil:
			lost = append(lost, h.ID)
		case f.locked[h.ID]:
			busy = append(busy, h.ID)
		default:
			row.leaseAt = time.Now().Add(f.lease)
		}
	}
	return lost, busy, nil
}

// steal makes a running job somebody else's.
func (f *fakeStore) steal(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[id].Token = "somebody else's"
}

func (f *fakeStore) Rescue(ctx context.Context, limit int) (out []queue.Rescued, err error) {
	if err := f.call(ctx, "Rescue"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range f.rows {
		if len(out) < limit && row.status == "running" && !f.locked[row.ID] && !row.leaseAt.After(time.Now()) {
			row.status, row.Token = "pending", ""
			out = append(out, queue.Rescued{ID: row.ID, Type: row.Type, WorkerID: "dead", Returned: queue.Returned{Verdict: queue.Requeued}})
		}
	}
	return out, f.stuck
}

// RescueAll is for what Rescue left, of which there is none here.
func (f *fakeStore) RescueAll(ctx context.Context, limit int) ([]queue.Rescued, error) {
	return nil, f.call(ctx, "RescueAll")
}

func (f *fakeStore) Sweep(ctx context.Context) (queue.SweepReport, error) {
	return queue.SweepReport{}, f.call(ctx, "Sweep")
}

func (f *fakeStore) Register(ctx context.Context, _ queue.WorkerInfo) error {
	if err := f.call(ctx, "Register"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registered = true
	return nil
}

func (f *fakeStore) Beat(ctx context.Context, b queue.Sign) (queue.Fleet, error) {
	if err := f.call(ctx, "Beat"); err != nil {
		return queue.Fleet{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.registered {
		return queue.Fleet{}, fmt.Errorf("beat: %w", queue.ErrUnregistered)
	}
	f.echoes = append(f.echoes, b.EchoChannel+":"+b.Nonce)
	f.beats = append(f.beats, time.Now())
	if b.Notice == listen.SeatsMoved {
		f.notices++
	}
	return queue.Fleet{Alive: f.alive, Wanting: slices.Clone(f.wantingIDs)}, nil
}

// setAlive says how many workers there are.
func (f *fakeStore) setAlive(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alive = n
}

// wanting adds one that wants to be told.
func (f *fakeStore) wanting(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wantingIDs = append(f.wantingIDs, id)
}

func (f *fakeStore) NobodySleeps(ctx context.Context) error { return f.call(ctx, "NobodySleeps") }

func (f *fakeStore) WantNotify(ctx context.Context, wants, handed bool) (refused, err error) {
	if err := f.call(ctx, "WantNotify"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.registered {
		return nil, fmt.Errorf("want notify: %w", queue.ErrUnregistered)
	}
	f.wants, f.hands = wants, handed && f.noHands == nil
	return f.noHands, nil
}

func (f *fakeStore) Barrier(ctx context.Context) (bool, error) {
	if err := f.call(ctx, "Barrier"); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.commits
	for range 1000 {
		open := false
		for c := range f.committing {
			open = open || c <= last
		}
		if !open {
			return true, nil
		}
		f.mu.Unlock()
		time.Sleep(time.Millisecond)
		f.mu.Lock()
	}
	return false, nil
}

func (f *fakeStore) Deregister(ctx context.Context) error {
	if err := f.call(ctx, "Deregister"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registered = false
	return nil
}

var errGone = errors.New("the database is gone: conn closed")

// world is a worker that runs on a fakeStore.
type world struct {
	*fakeStore
	w    *Worker
	stop context.CancelFunc
	kill context.CancelFunc
	done chan error
	ear  chan struct{} // full while the listener's goroutine is at work
}

// heard is what the listener's goroutine does with what it hears of a job that was handed over.
func (x *world) heard(worker string, job int64) {
	x.ear <- struct{}{}
	defer func() { <-x.ear }()
	x.w.Handed(context.Background(), listen.Handed{Worker: worker, Job: job})
}

// begin runs a worker; change may alter its configuration and the store before.
func begin(t *testing.T, handlers map[string]queue.Handler, change func(*Config, *fakeStore)) *world {
	t.Helper()
	bell := listen.NewDoorbell()
	f := newFake(bell)
	cfg := Config{Store: f, Bell: bell, Handlers: handlers, EchoChannel: "echo", Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)}
	if change != nil {
		change(&cfg, f)
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop, cancelStop := context.WithCancel(context.Background())
	end, cancelEnd := context.WithCancel(context.Background())
	x := &world{fakeStore: f, w: w, stop: cancelStop, kill: cancelEnd, done: make(chan error, 1), ear: make(chan struct{}, 1)}
	go func() { x.done <- w.Run(stop, end) }()
	return x
}

// finish stops the worker and wants it to have concluded everything, each reservation once.
func (x *world) finish(t *testing.T) {
	t.Helper()
	x.stop()
	if err := <-x.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	x.kill()
	x.bell.Close()
	x.mu.Lock()
	defer x.mu.Unlock()
	for token, ends := range x.ends {
		if len(ends) != 1 {
			t.Errorf("reservation %s has %d conclusions: %v", token, len(ends), ends)
		}
	}
	if x.registered {
		t.Error("the worker is still registered")
	}
}

func (x *world) row(id int64) fakeRow {
	x.mu.Lock()
	defer x.mu.Unlock()
	return *x.rows[id]
}

// pass lets time pass, and everything happen that happens then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// handle makes handlers for type "t".
func handle(h func(ctx context.Context, j queue.Job) queue.Outcome) map[string]queue.Handler {
	return map[string]queue.Handler{"t": queue.HandlerFunc(h)}
}

func ok(context.Context, queue.Job) queue.Outcome { return queue.Outcome{} }
