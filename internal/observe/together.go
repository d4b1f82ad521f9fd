package observe

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Reason is one of those why a process is not ready.
type Reason struct {
	Code     string    `json:"code"`
	Database string    `json:"database"`
	Text     string    `json:"text"`
	Since    time.Time `json:"since"`
}

// DatabaseHealth is whether a job that is committed in this database now is started at once; if not, Health says why.
type DatabaseHealth struct {
	Database string `json:"database"`
	Ready    bool   `json:"ready"`
	Phase    string `json:"phase"`
	Listener string `json:"listener,omitempty"` // in words

	reasons []Reason // empty when Ready
}

// Health of the process: it is ready when it is ready for each of its databases.
type Health struct {
	Ready     bool             `json:"ready"`
	Reasons   []Reason         `json:"reasons"` // empty when Ready
	Databases []DatabaseHealth `json:"databases"`
	Version   string           `json:"version"`
}

// String is the page for people. It names databases where there are several.
func (h Health) String() string {
	name := func(database string) string {
		if len(h.Databases) < 2 {
			return ""
		}
		return database + ": "
	}
	var b strings.Builder
	if h.Ready {
		b.WriteString("ready\n")
	} else {
		b.WriteString("not ready\n")
	}
	for _, r := range h.Reasons {
		fmt.Fprintf(&b, "%s%s: %s (since %s)\n", name(r.Database), r.Code, r.Text, r.Since.UTC().Format(time.RFC3339))
	}
	for _, d := range h.Databases {
		if d.Listener != "" {
			fmt.Fprintf(&b, "%slistener: %s\n", name(d.Database), d.Listener)
		}
	}
	return b.String()
}

// Dead says why the process should be restarted, "" when it lives.
func (o *Observer) Dead() string {
	var texts []string
	for _, d := range o.databases {
		text := d.dead()
		if text != "" && len(o.databases) > 1 {
			text = d.name + ": " + text
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// Health asks all databases, and everybody else.
func (o *Observer) Health() Health {
	h := Health{Version: o.cfg.Version, Reasons: []Reason{}, Databases: make([]DatabaseHealth, len(o.databases))}
	o.each(func(i int, d *Database) { h.Databases[i] = d.check() })
	for _, d := range h.Databases {
		h.Reasons = append(h.Reasons, d.reasons...)
	}
	h.Ready = len(h.Reasons) == 0
	return h
}

// each does something with all databases at the same time: one that does not answer keeps nobody waiting for another.
func (o *Observer) each(do func(int, *Database)) {
	if len(o.databases) == 1 {
		do(0, o.databases[0])
		return
	}
	var all sync.WaitGroup
	for i, d := range o.databases {
		all.Go(func() { do(i, d) })
	}
	all.Wait()
}
