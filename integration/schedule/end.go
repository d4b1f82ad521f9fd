package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Failure is a schedule in which something did not hold.
type Failure struct {
	Err   error
	Story []string // steps and waits, up to there
}

// Error is what did not hold and the story.
func (f *Failure) Error() string {
	return f.Err.Error() + "\n\t" + strings.Join(f.Story, "\n\t")
}

// Unwrap returns what did not hold.
func (f *Failure) Unwrap() error { return f.Err }

// end waits for all that was begun. After a failure, sessions that wait are freed by ending the transactions of the others.
func (p *play) end(err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), patience)
	defer cancel()
	if err == nil {
		// Whoever still waits, waits for a transaction that the script leaves open, or is in a deadlock.
		err = p.finish(ctx)
	}
	if err == nil {
		return nil
	}
	for p.waiting() {
		for _, a := range p.actors {
			if a.done == nil {
				_, _ = a.conn.Exec(ctx, "ROLLBACK") // a warning when there is none
			}
		}
		a := p.running()[0]
		select {
		case e := <-a.done:
			a.done = nil
			p.note("%s: %s ended when the schedule was given up: %v", a.Name, a.step().Name, e)
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return &Failure{errors.Join(err, fmt.Errorf("%s does not end", a.Name)), p.story}
		}
	}
	for _, a := range p.actors {
		_, _ = a.conn.Exec(ctx, "ROLLBACK")
	}
	return &Failure{err, p.story}
}

// finish waits for the steps that are under way after the last turn, and says when a transaction was left open.
func (p *play) finish(ctx context.Context) error {
	for _, a := range p.running() {
		select {
		case err := <-a.done:
			if err := p.ended(a, err); err != nil {
				return err
			}
		case <-time.After(patience / 2):
			return fmt.Errorf("%s: %s still waits at the end", a.Name, a.step().Name)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, a := range p.actors {
		for a.next < len(a.Steps) {
			p.note("%s: %s", a.Name, a.Steps[a.next].Name)
			a.begin(ctx)
			if err := p.ended(a, <-a.done); err != nil {
				return err
			}
		}
		if a.conn.PgConn().TxStatus() != 'I' {
			return fmt.Errorf("%s: the script leaves a transaction open", a.Name)
		}
	}
	return nil
}

// Connect opens the observer and n sessions. They are closed by the caller.
func Connect(ctx context.Context, url string, n int) (*Stage, error) {
	s := &Stage{After: func(context.Context, bool) error { return nil }}
	for i := range n + 1 {
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			s.Close(ctx)
			return nil, fmt.Errorf("connect session %d: %w", i, err)
		}
		if i == 0 {
			s.Observer = c
		} else {
			s.Conns = append(s.Conns, c)
		}
	}
	return s, nil
}

// Close closes all connections.
func (s *Stage) Close(ctx context.Context) {
	for _, c := range append(s.Conns, s.Observer) {
		if c != nil {
			_ = c.Close(ctx) // nothing is left to be lost
		}
	}
}
