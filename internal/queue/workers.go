package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// WorkerInfo is what a process tells about itself.
type WorkerInfo struct {
	Host    string
	PID     int
	Version string
	Slots   int
}

// ErrUnregistered says that this process has no row in workers (any more): it registers again.
var ErrUnregistered = errors.New("this worker is not registered")

// Register adds this process to workers, not wanting to be told of jobs yet.
func (s *Store) Register(ctx context.Context, w WorkerInfo) error {
	ctx, done := s.bound(ctx)
	defer done()
	if _, err := s.cfg.DB.Exec(ctx, s.sql.register, s.cfg.WorkerID, w.Host, w.PID, w.Version, w.Slots); err != nil {
		s.redial(err)
		return fmt.Errorf("register worker %s: %w", s.cfg.WorkerID, err)
	}
	return nil
}

// Fleet is what a beat tells of the workers that live.
type Fleet struct {
	Alive   int      // how many there are, this one included
	Wanting []string // the ids of those that want to be told of jobs, in no order
	Unheard bool     // this one is in reserve, and should look: work is due, and whoever should have been told of it has fallen silent
}

// Sign is what a worker says of itself with each beat.
type Sign struct {
	Busy        int    // slots
	Reserve     bool   // it hears nothing itself, trusts that others do, and could take a job
	EchoChannel string // Nonce is sent there, so that the process hears whether notifications reach it; "": nowhere
	Nonce       string
	Notice      string // is sent to all who listen for jobs; "": nothing is
}

// Beat says that this process lives. It returns who else does, or ErrUnregistered when this one's row is gone.
func (s *Store) Beat(ctx context.Context, b Sign) (f Fleet, err error) {
	ctx, done := s.bound(ctx)
	defer done()
	var echo, notice *string
	err = s.cfg.DB.QueryRow(ctx, s.sql.beat, s.cfg.WorkerID, b.Busy, b.EchoChannel, b.Nonce, b.Reserve, b.Notice).
		Scan(&f.Wanting, &f.Alive, &f.Unheard, &echo, &notice)
	if errors.Is(err, pgx.ErrNoRows) {
		return Fleet{}, s.one("beat", 0, nil)
	}
	return f, s.one("beat", 1, err)
}

// WantNotify says whether commits shall tell this process of jobs, and whether they shall hand it jobs (handed). The latter is as
// good as the session of OpenHands: without one they don't, and refused says why. It returns ErrUnregistered when the row is gone.
func (s *Store) WantNotify(ctx context.Context, want, handed bool) (refused, err error) {
	ctx, done := s.bound(ctx)
	defer done()
	var how *string
	if handed {
		text, err := s.askHands()
		if refused = err; err == nil {
			how = &text
		}
	}
	tag, err := s.cfg.DB.Exec(ctx, s.sql.wantNotify, s.cfg.WorkerID, want, how)
	return refused, s.one("want notify", tag.RowsAffected(), err)
}

// NobodySleeps lets commits know that no worker wants to be told of jobs, if that is so: then they need not look. It is to be called when
// this process has taken back that it does.
func (s *Store) NobodySleeps(ctx context.Context) error {
	ctx, done := s.bound(ctx)
	defer done()
	if _, err := s.cfg.DB.Exec(ctx, s.sql.nobodySleeps); err != nil {
		return fmt.Errorf("say that nobody sleeps: %w", err)
	}
	return nil
}

func (s *Store) one(what string, rows int64, err error) error {
	if err == nil && rows == 0 {
		err = ErrUnregistered
	}
	if err != nil {
		s.redial(err)
		return fmt.Errorf("%s of worker %s: %w", what, s.cfg.WorkerID, err)
	}
	return nil
}

// Barrier waits until every commit that may have missed this process's wish to be told is over. False means that one of
// them stays open longer than a fifth of a second: the caller must keep looking instead of trusting its sleep.
func (s *Store) Barrier(ctx context.Context) (bool, error) {
	ok, err := s.barrier(ctx)
	if err == nil {
		s.looks.restart() // what was committed before the barrier may be due since any time
	}
	return ok, err
}

func (s *Store) barrier(ctx context.Context) (ok bool, err error) {
	ctx, done := s.bound(ctx)
	defer done()
	if err := s.cfg.DB.QueryRow(ctx, s.sql.barrier, barrierTimeout.Milliseconds()).Scan(&ok); err != nil {
		return false, fmt.Errorf("barrier: %w", err)
	}
	return ok, nil
}

// Deregister removes this process from workers.
func (s *Store) Deregister(ctx context.Context) error {
	ctx, done := s.bound(ctx)
	defer done()
	if _, err := s.cfg.DB.Exec(ctx, s.sql.deregister, s.cfg.WorkerID); err != nil {
		return fmt.Errorf("deregister worker %s: %w", s.cfg.WorkerID, err)
	}
	return nil
}
