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

// dead says why the process should be restarted, "" when it need not. A database that is gone is no reason.
func (d *Database) dead() string {
	p := d.parts.Load()
	if p == nil || p.Worker == nil {
		return ""
	}
	s := p.Worker.Stats()
	if s.Phase == worker.Draining || time.Since(s.Turned) <= turnWithin {
		return ""
	}
	return fmt.Sprintf("the worker's loop has not turned since %s", s.Turned.UTC().Format(time.RFC3339))
}

// check asks the database, at most once a second, and everybody else.
func (d *Database) check() DatabaseHealth {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.checked) < healthFor {
		return d.health
	}
	h := DatabaseHealth{Database: d.name, Phase: string(worker.Starting)}
	if p := d.parts.Load(); p == nil {
		text, since := "not begun yet", d.o.began
		if d.waiting != "" {
			text, since = "waiting for the database: "+oneLine(d.waiting), d.waited
		}
		h.reasons = append(h.reasons, d.reason(codeStarting, text, since))
	} else {
		d.look(p, &h)
	}
	h.reasons = d.dated(h.reasons)
	h.Ready = len(h.reasons) == 0
	d.health, d.checked = h, time.Now()
	return h
}

func (d *Database) reason(code, text string, since time.Time) Reason {
	return Reason{Code: code, Database: d.name, Text: text, Since: since}
}

func (d *Database) look(p *Parts, h *DatabaseHealth) {
	add := func(code, text string, since time.Time) { h.reasons = append(h.reasons, d.reason(code, text, since)) }
	if p.Worker != nil {
		s := p.Worker.Stats()
		h.Phase = string(s.Phase)
		switch {
		case s.Phase == worker.Draining:
			add(codeDraining, "finishes what runs, takes nothing new", s.Turned)
		case s.Phase == worker.Starting && s.Trouble.Err == nil:
			add(codeStarting, "not registered yet", d.o.began)
		}
		for _, t := range []worker.Trouble{s.Trouble, s.BeatTrouble} {
			if t.Err != nil {
				add(classify(t.Err), inWords(t.Err), t.Since)
			}
		}
	}
	if text := d.dead(); text != "" {
		add(codeStuck, text, time.Now())
	}
	if err := d.ask(p); err != nil {
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
func (d *Database) ask(p *Parts) error {
	ctx, done := context.WithTimeout(context.Background(), askWithin)
	defer done()
	if p.Store != nil {
		if err := p.Store.Writable(ctx); err != nil {
			return err
		}
	}
	if p.Schema == nil || time.Since(d.schema) < schemaFor {
		return nil
	}
	if err := p.Schema(ctx); err != nil {
		d.schema = time.Time{}
		return schemaError{err}
	}
	d.schema = time.Now()
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
func (d *Database) dated(reasons []Reason) []Reason {
	out := []Reason{}
	for _, r := range reasons {
		if first, ok := d.since[r.Code]; ok && first.Before(r.Since) {
			r.Since = first
		}
		i := slices.IndexFunc(out, func(had Reason) bool { return had.Code == r.Code })
		if i < 0 {
			out = append(out, r)
		} else if r.Since.Before(out[i].Since) {
			out[i].Since = r.Since
		}
	}
	clear(d.since)
	maps.Insert(d.since, func(yield func(string, time.Time) bool) {
		for _, r := range out {
			if !yield(r.Code, r.Since) {
				return
			}
		}
	})
	return out
}
