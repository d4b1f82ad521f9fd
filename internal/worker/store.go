package worker

import (
	"context"
	"encoding/json"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// Store is the jobs table as a worker needs it. All methods are called concurrently.
type Store interface {
	// Reserve takes at most n due jobs. What it says of NextDue and NextLease counts when it returns fewer than n.
	Reserve(ctx context.Context, n int) (queue.Reservation, error)
	// ReserveBriefly is Reserve at its quickest: when the Reservation is Brief, it says nothing of NextDue and NextLease.
	ReserveBriefly(ctx context.Context, n int) (queue.Reservation, error)
	// LookBetween and LookBack look for what Reserve's looks don't reach, when Reserve said that it is time, and have the next one
	// reach it.
	LookBetween(ctx context.Context) (queue.Behind, error)
	LookBack(ctx context.Context) (queue.Behind, error)
	Complete(ctx context.Context, done []queue.Completion) (queue.Completions, error)
	Requeue(ctx context.Context, r queue.Return) (queue.Returned, error)
	Progress(ctx context.Context, id int64, token string, result json.RawMessage) error
	Extend(ctx context.Context, held []queue.Held) (lost, busy []int64, err error)
	Rescue(ctx context.Context, limit int) ([]queue.Rescued, error)
	// RescueAll is what Rescue leaves when it would take long; it does nothing unless it is time for it.
	RescueAll(ctx context.Context, limit int) ([]queue.Rescued, error)
	Sweep(ctx context.Context) (queue.SweepReport, error)

	Register(ctx context.Context, info queue.WorkerInfo) error
	// Beat says that this worker lives, and sends the echo. It returns who else does.
	Beat(ctx context.Context, b queue.Sign) (queue.Fleet, error)
	// WantNotify says whether commits shall tell this worker of jobs, and hand it some. refused says why they can't do the latter.
	WantNotify(ctx context.Context, wants, handed bool) (refused, err error)
	// NobodySleeps lets commits know that no worker wants to be told, if that is so.
	NobodySleeps(ctx context.Context) error
	// Barrier returns true once every commit that may have missed the last WantNotify is over; false when it can't tell.
	Barrier(ctx context.Context) (bool, error)
	Deregister(ctx context.Context) error

	// Take takes a job that was handed to this worker, on the connection that has heard of it; nil when it is not this worker's; again says
	// that somebody looks after it this very moment. HungUp says that this connection is closed; what it returns waits until all is to be
	// found by Mine that commits may have handed this worker before. Only the listener's goroutine calls them.
	Take(ctx context.Context, id int64) (taken *queue.Handed, again bool, err error)
	HungUp() (wait func(context.Context) error)
	// Let says that a job that was taken is over.
	Let(job queue.Handed)
	// Mine returns all jobs that are RUNNING for this worker, TakeBack makes those of them that it has not taken its own as if they had
	// been reserved; again are those that somebody looks after this very moment.
	Mine(ctx context.Context) ([]queue.Own, error)
	TakeBack(ctx context.Context, own []queue.Own) (jobs []queue.Job, again []int64, err error)
	// TakeOver takes over at most n of these jobs, those that were handed to others, and have not been taken; when ids is nil, of all that
	// were handed over so long ago at least.
	TakeOver(ctx context.Context, ids []int64, n int, ago time.Duration) ([]queue.Job, error)
}

// Seat is a place among the few workers of a large fleet that listen, as a listen.Listener has it. Its methods never block.
type Seat interface {
	Sit()                    // asks for one; when it is had, the bell rings for listen.Connected
	Rise()                   // leaves it, or the line for it, to another
	Fleet(crowded bool)      // says whether the fleet is so large that only few listen
	Redial()                 // gives up the connection for another, at which commits hand jobs no more until they are told of it
	Hearing() listen.Hearing // while it answers listen.Listening after Sit, there was no gap since that ring
}
