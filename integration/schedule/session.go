package schedule

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Waits says for whom a step may wait.
type Waits int

// A step waits for nobody, for sessions of workers alone (whose transactions are short), or, as any SQL may, for anybody.
const (
	Never Waits = iota
	ForWorkers
	ForAnybody
)

// Step is what a session does between two looks at the database.
type Step struct {
	Name  string
	Waits Waits
	// Do returns an error when it failed in a way that the script does not expect; that fails the schedule.
	Do func(ctx context.Context, c *pgx.Conn) error
}

// Session is one connection's script.
type Session struct {
	Name   string
	Worker bool // its transactions are short outside of a schedule: others may wait for it if their Waits says so
	Steps  []Step
}

// actor is a session while a schedule is played.
type actor struct {
	Session
	conn *pgx.Conn
	next int        // steps begun
	owed int        // steps whose turn came while an earlier one waited
	done chan error // of the step that runs; nil when none does
	held []uint32   // backends it waits for; empty when it waits for nobody
}

func (a *actor) pid() uint32 { return a.conn.PgConn().PID() }

// begin starts the next step. settle receives its end.
func (a *actor) begin(ctx context.Context) {
	step := a.Steps[a.next]
	a.next++
	a.done = make(chan error, 1)
	go func() { a.done <- step.Do(ctx, a.conn) }()
}

func (a *actor) step() Step { return a.Steps[a.next-1] }
