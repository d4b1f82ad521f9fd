package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	quick    = 2 * time.Millisecond   // most steps end within it: then nobody is asked who waits
	poll     = 300 * time.Microsecond // between two looks at pg_locks; the server has no event for it
	patience = time.Minute            // for anything; two busy cores are slow
)

// Stage is where schedules are played: one connection a session, and one that looks on.
type Stage struct {
	Observer *pgx.Conn
	Conns    []*pgx.Conn
	// After is called when all that runs has ended or waits, with whether somebody waits: it says what does not hold.
	After func(ctx context.Context, waiting bool) error
}

// Play plays one order. The error says what did not hold, and holds the story of the schedule up to there; all that was
// begun has ended when it returns.
func (s *Stage) Play(ctx context.Context, sessions []Session, order Order) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := &play{stage: s, ctx: ctx}
	for i, x := range sessions {
		p.actors = append(p.actors, &actor{Session: x, conn: s.Conns[i]})
	}
	for _, who := range order {
		if err := p.turn(p.actors[who]); err != nil {
			return p.end(err)
		}
	}
	return p.end(nil)
}

// play is one schedule under way.
type play struct {
	stage  *Stage
	ctx    context.Context
	actors []*actor
	story  []string
}

func (p *play) note(format string, args ...any) {
	p.story = append(p.story, fmt.Sprintf(format, args...))
}

// turn gives one session its next step, or puts it off while it waits; whoever goes on because of it catches up.
func (p *play) turn(a *actor) error {
	a.owed++
	for {
		i := slices.IndexFunc(p.actors, func(a *actor) bool { return a.owed > 0 && a.done == nil })
		if i < 0 {
			return nil
		}
		a := p.actors[i]
		a.owed--
		p.note("%s: %s", a.Name, a.Steps[a.next].Name)
		a.begin(p.ctx)
		if err := p.settle(); err != nil {
			return err
		}
		if err := p.stage.After(p.ctx, p.waiting()); err != nil {
			return err
		}
	}
}

func (p *play) waiting() bool {
	return slices.ContainsFunc(p.actors, func(a *actor) bool { return a.done != nil })
}

// settle returns when every step that was begun has ended or waits for a lock that nobody is about to release.
func (p *play) settle() error {
	begun := time.Now()
	for {
		running := p.running()
		if len(running) == 0 {
			return nil
		}
		if left := quick - time.Since(begun); left > 0 && len(running) == 1 && running[0].held == nil {
			select {
			case err := <-running[0].done:
				if err := p.ended(running[0], err); err != nil {
					return err
				}
				continue
			case <-time.After(left):
			}
		}
		settled, err := p.look(running)
		if err != nil {
			return err
		}
		if settled {
			return nil
		}
		for _, a := range running {
			select {
			case err := <-a.done:
				if err := p.ended(a, err); err != nil {
					return err
				}
			default:
			}
		}
		if p.ctx.Err() != nil {
			return fmt.Errorf("a step neither ended nor waited for a lock: %w", p.ctx.Err())
		}
		time.Sleep(poll)
	}
}

func (p *play) running() []*actor {
	var out []*actor
	for _, a := range p.actors {
		if a.done != nil {
			out = append(out, a)
		}
	}
	return out
}

func (p *play) ended(a *actor, err error) error {
	waited := ""
	if a.held != nil {
		waited = ", after waiting"
	}
	a.done, a.held = nil, nil
	if err != nil {
		p.note("%s: %s failed%s: %v", a.Name, a.step().Name, waited, err)
		return fmt.Errorf("%s: %s: %w", a.Name, a.step().Name, err)
	}
	if waited != "" {
		p.note("%s: %s ended%s", a.Name, a.step().Name, waited)
	}
	return nil
}

// look asks who waits for whom. True when all who run wait for sessions that do nothing or wait themselves.
func (p *play) look(running []*actor) (bool, error) {
	pids := make([]int32, len(running))
	for i, a := range running {
		pids[i] = int32(a.pid())
	}
	rows, err := p.stage.Observer.Query(p.ctx, `SELECT DISTINCT pid, pg_blocking_pids(pid) FROM pg_locks WHERE NOT granted AND pid = ANY ($1)`, pids)
	if err != nil {
		return false, fmt.Errorf("look who waits: %w", err)
	}
	blockers := map[uint32][]uint32{}
	var pid uint32
	var by []int32
	if _, err := pgx.ForEachRow(rows, []any{&pid, &by}, func() error {
		for _, b := range by {
			blockers[pid] = append(blockers[pid], uint32(b))
		}
		return nil
	}); err != nil {
		return false, fmt.Errorf("look who waits: %w", err)
	}
	for _, a := range running {
		if len(blockers[a.pid()]) == 0 {
			return false, nil
		}
		for _, b := range blockers[a.pid()] {
			// A backend that is none of ours (autovacuum, say), or one that goes on, will release it.
			x := p.actor(b)
			if x == nil || (x.done != nil && len(blockers[b]) == 0) {
				return false, nil
			}
		}
	}
	var errs []error
	for _, a := range running {
		errs = append(errs, p.waits(a, blockers[a.pid()]))
	}
	return true, errors.Join(errs...)
}

// waits notes that a session waits, and says whether it may.
func (p *play) waits(a *actor, by []uint32) error {
	slices.Sort(by)
	if slices.Equal(a.held, by) {
		return nil
	}
	a.held = by
	var names []string
	var forbidden string
	for _, b := range by {
		x := p.actor(b)
		names = append(names, x.Name)
		if a.step().Waits == Never || (a.step().Waits == ForWorkers && !x.Worker) {
			forbidden = x.Name
		}
	}
	p.note("%s: %s waits for %s", a.Name, a.step().Name, strings.Join(names, ", "))
	if forbidden != "" {
		return fmt.Errorf("%s: %s waits for %s", a.Name, a.step().Name, forbidden)
	}
	return nil
}

func (p *play) actor(pid uint32) *actor {
	for _, a := range p.actors {
		if a.pid() == pid {
			return a
		}
	}
	return nil
}
