package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
	"notifyworker/internal/worker"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	healthFor    = time.Second      // how long an answer is kept
	schemaFor    = 10 * time.Second // likewise for a schema that is right
	askWithin    = 2 * time.Second
	turnWithin   = time.Minute     // what the loop's longest turn, all its statements timing out, does not reach
	reconnecting = 5 * time.Second // a listener that is away for less is no reason
)

// The codes of reasons.
const (
	codeStarting    = "starting"
	codeDraining    = "draining"
	codeStuck       = "stuck"
	codeUnreachable = "database_unreachable"
	codeFailing     = "database_failing"
	codeReadOnly    = "read_only"
	codeDenied      = "permission_denied"
	codeSchema      = "schema"
	codeDeaf        = "deaf"
	codeReconnect   = "reconnecting"
)

// Reason is one of those why a worker is not ready.
type Reason struct {
	Code  string    `json:"code"`
	Text  string    `json:"text"`
	Since time.Time `json:"since"`
}

// Health is whether a job that is committed now is started at once, and why not.
type Health struct {
	Ready    bool     `json:"ready"`
	Reasons  []Reason `json:"reasons"` // empty when Ready
	Phase    string   `json:"phase"`
	Listener string   `json:"listener,omitempty"` // in words
	Version  string   `json:"version"`
}

// String is the page for people.
func (h Health) String() string {
	var b strings.Builder
	if h.Ready {
		b.WriteString("ready\n")
	} else {
		b.WriteString("not ready\n")
	}
	for _, r := range h.Reasons {
		fmt.Fprintf(&b, "%s: %s (since %s)\n", r.Code, r.Text, r.Since.UTC().Format(time.RFC3339))
	}
	if h.Listener != "" {
		fmt.Fprintf(&b, "listener: %s\n", h.Listener)
	}
	return b.String()
}

// Dead says why the process should be restarted, "" when it lives. A database that is gone is no reason.
func (o *Observer) Dead() string {
	p := o.parts.Load()
	if p == nil || p.Worker == nil {
		return ""
	}
	s := p.Worker.Stats()
	if s.Phase == worker.Draining || time.Since(s.Turned) <= turnWithin {
		return ""
	}
	return fmt.Sprintf("the worker's loop has not turned since %s", s.Turned.UTC().Format(time.RFC3339))
}

// Health asks the database, at most once a second, and everybody else.
func (o *Observer) Health() Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.checked) < healthFor {
		return o.health
	}
	h := Health{Phase: string(worker.Starting), Version: o.cfg.Version, Reasons: []Reason{}}
	if p := o.parts.Load(); p == nil {
		text := "not begun yet"
		if o.waiting != "" {
			text = "waiting for the database: " + oneLine(o.waiting)
		}
		h.Reasons = append(h.Reasons, Reason{codeStarting, text, o.began})
	} else {
		o.look(p, &h)
	}
	h.Reasons = o.dated(h.Reasons)
	h.Ready = len(h.Reasons) == 0
	o.health, o.checked = h, time.Now()
	return h
}

func (o *Observer) look(p *Parts, h *Health) {
	add := func(code, text string, since time.Time) { h.Reasons = append(h.Reasons, Reason{code, text, since}) }
	if p.Worker != nil {
		s := p.Worker.Stats()
		h.Phase = string(s.Phase)
		switch {
		case s.Phase == worker.Draining:
			add(codeDraining, "finishes what runs, takes nothing new", s.Turned)
		case s.Phase == worker.Starting && s.Trouble.Err == nil:
			add(codeStarting, "not registered yet", o.began)
		}
		for _, t := range []worker.Trouble{s.Trouble, s.BeatTrouble} {
			if t.Err != nil {
				add(classify(t.Err), inWords(t.Err), t.Since)
			}
		}
	}
	if text := o.Dead(); text != "" {
		add(codeStuck, text, time.Now())
	}
	if err := o.ask(p); err != nil {
		add(classify(err), inWords(err), time.Now())
	}
	if p.Listener != nil {
		s := p.Listener.State()
		h.Listener = s.String()
		switch {
		case s.Hearing == listen.Deaf:
			add(codeDeaf, h.Listener, s.Since)
		case s.Hearing == listen.Connecting && time.Since(s.Since) > reconnecting:
			add(codeReconnect, h.Listener, s.Since)
		}
	}
}

// schemaError is an answer of Parts.Schema.
type schemaError struct{ error }

func (e schemaError) Unwrap() error { return e.error }

// ask asks the database whether it takes what the worker writes, and now and then whether the schema is the right one.
func (o *Observer) ask(p *Parts) error {
	ctx, done := context.WithTimeout(context.Background(), askWithin)
	defer done()
	if p.Store != nil {
		if err := p.Store.Writable(ctx); err != nil {
			return err
		}
	}
	if p.Schema == nil || time.Since(o.schema) < schemaFor {
		return nil
	}
	if err := p.Schema(ctx); err != nil {
		o.schema = time.Time{}
		return schemaError{err}
	}
	o.schema = time.Now()
	return nil
}

func classify(err error) string {
	var pg *pgconn.PgError
	server := errors.As(err, &pg)
	var schema schemaError
	switch {
	case errors.Is(err, queue.ErrReadOnly) || queue.ReadOnly(err):
		return codeReadOnly
	case errors.Is(err, queue.ErrNoRights) || server && pg.Code == "42501": // insufficient_privilege
		return codeDenied
	case server && (strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57P")), !server && queue.Retryable(err):
		return codeUnreachable
	case queue.SetupProblem(err), errors.As(err, &schema):
		return codeSchema
	}
	return codeFailing
}

func inWords(err error) string {
	text := oneLine(err.Error())
	if advice := queue.Advice(err); advice != "" {
		text += "; " + advice
	}
	const most = 1000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// oneLine is for errors of connecting, which have a line for each address.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// dated makes one reason of several with the same code, and remembers since when each stands.
func (o *Observer) dated(reasons []Reason) []Reason {
	out := []Reason{}
	for _, r := range reasons {
		if first, ok := o.since[r.Code]; ok && first.Before(r.Since) {
			r.Since = first
		}
		i := slices.IndexFunc(out, func(had Reason) bool { return had.Code == r.Code })
		if i < 0 {
			out = append(out, r)
		} else if r.Since.Before(out[i].Since) {
			out[i].Since = r.Since
		}
	}
	clear(o.since)
	maps.Insert(o.since, func(yield func(string, time.Time) bool) {
		for _, r := range out {
			if !yield(r.Code, r.Since) {
				return
			}
		}
	})
	return out
}
