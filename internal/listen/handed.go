package listen

import (
	"context"
	"runtime"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Hands takes what commits hand to this process. Its methods are called by the goroutine that reads the listening connection, so they may
// use it, see Config.OpenHands; none may take long, since no notification is read meanwhile.
type Hands interface {
	// Handed is called when a commit has handed a job to a worker, this one or another.
	Handed(ctx context.Context, h Handed)
	// HungUp is called when the connection was given up to be in reserve: what was handed over at that moment has not been heard of. What
	// it returns is called on a goroutine of its own, and may take long.
	HungUp() (ask func(context.Context))
}

// Handed is what a payload says of a job that a commit has handed to one of the workers. Like any payload it is but a hint: the table
// alone says whose the job is.
type Handed struct {
	Worker string // UUID
	Job    int64
}

const (
	handedStart  = `{"worker":"`
	handedMiddle = `","job":`
	uuidLength   = 36
)

// parseHanded reads {"worker":"…","job":…} as hand_over writes it. Whoever does not know it takes it for a hint without parts, and
// looks once.
func parseHanded(payload string) (h Handed, ok bool) {
	rest, ok := strings.CutPrefix(payload, handedStart)
	if !ok || len(rest) < uuidLength+len(handedMiddle)+2 || rest[uuidLength:uuidLength+len(handedMiddle)] != handedMiddle {
		return Handed{}, false
	}
	digits, ok := strings.CutSuffix(rest[uuidLength+len(handedMiddle):], "}")
	if !ok {
		return Handed{}, false
	}
	h.Worker = rest[:uuidLength]
	job, err := strconv.ParseInt(digits, 10, 64)
	h.Job = job
	return h, err == nil && job > 0
}

// handed takes in what a payload says of a job that was handed over, and says whether it was that.
func (l *Listener) handed(ctx context.Context, payload string) bool {
	if l.hands == nil {
		return false
	}
	h, ok := parseHanded(payload)
	if ok {
		l.hands.Handed(ctx, h)
		runtime.Gosched() // the job goes first
	}
	return ok
}

// open lends the hands a new connection.
func (l *Listener) open(ctx context.Context, conn *pgx.Conn) {
	if l.cfg.OpenHands == nil {
		return
	}
	if err := l.cfg.OpenHands(ctx, conn); err != nil {
		l.cfg.Log.Debug().Err(err).Msg("jobs can't be taken by this connection")
	}
}

// Redial gives up the connection for another one, if there is one: until that is there, commits hand this process nothing. It never
// blocks.
func (l *Listener) Redial() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.cut(l.conn)
	}
}
