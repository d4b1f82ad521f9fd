package observe

import (
	"time"

	"github.com/rs/zerolog"
)

// Config of an Observer; every zero value is a working default.
type Config struct {
	Addr    string // host:port to serve on; see CheckAddr
	Version string
	Log     zerolog.Logger // the zero value is silent

	PinnedAfter time.Duration // a snapshot older than this is warned of; 0 means 1m
}

// Observer watches a process, one database after the other. Make it by New.
type Observer struct {
	cfg       Config
	began     time.Time
	databases []*Database // all of them before Run, so nobody writes while somebody reads
}

// New returns an Observer that watches nothing yet.
func New(cfg Config) *Observer {
	if cfg.PinnedAfter == 0 {
		cfg.PinnedAfter = time.Minute
	}
	return &Observer{cfg: cfg, began: time.Now()}
}

// Add tells of a database that the process is to work on. Its name is the label "database" of its metrics, so it is no secret.
// Add all of them before Run.
func (o *Observer) Add(name string, log zerolog.Logger) *Database {
	d := &Database{o: o, name: name, log: log, since: map[string]time.Time{}}
	o.databases = append(o.databases, d)
	return d
}
