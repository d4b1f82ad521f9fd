package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"notifyworker/internal/engine"
	"notifyworker/internal/queue"
)

// runFlags are the settings of a worker as they were written.
type runFlags struct {
	database
	ListenURL    []string `env:"NOTIFYWORKER_LISTEN_URL" sep:"none" placeholder:"URL" help:"Where to listen for notifications, when DATABASE_URL leads through a pooler that can't (default: the same). For several databases as many, in the same order."`
	StartTimeout string   `env:"NOTIFYWORKER_START_TIMEOUT" placeholder:"DURATION" help:"How long to wait at the start for a database that does not answer (default 1m)."`
	Migrate      bool     `env:"NOTIFYWORKER_MIGRATE" help:"Install or update the schema first."`

	Slots        string `group:"Worker" env:"NOTIFYWORKER_SLOTS" placeholder:"N" help:"Jobs at once, of each database (default 8)."`
	Wake         string `group:"Worker" env:"NOTIFYWORKER_WAKE" placeholder:"HOW" help:"notify, or poll to do without notifications (default notify)."`
	PollInterval string `group:"Worker" env:"NOTIFYWORKER_POLL_INTERVAL" placeholder:"DURATION" help:"How often to look unasked (default 30s, with poll 1s)."`
	Variant      string `group:"Worker" env:"NOTIFYWORKER_VARIANT" placeholder:"NAME" help:"Refuse to start unless the schema has this variant, advisory or cte; with --migrate, install it (default: what is installed)."`
	Lease        string `group:"Worker" env:"NOTIFYWORKER_LEASE" placeholder:"DURATION" help:"How long a job of a killed worker stays taken (default 8s)."`
	DrainTimeout string `group:"Worker" env:"NOTIFYWORKER_DRAIN_TIMEOUT" placeholder:"DURATION" help:"How long jobs may go on after SIGTERM (default 20s)."`
	MaxIDs       string `name:"max-ids" group:"Worker" env:"NOTIFYWORKER_MAX_IDS" placeholder:"N" help:"Product ids a job takes at most, the rest follows in the next (default 50000)."`

	Recompute        string `group:"Price refreshes" env:"NOTIFYWORKER_RECOMPUTE" placeholder:"TARGET" help:"What recomputes prices: sql:FUNCTION or an HTTP URL; none for a worker without."`
	RecomputeTimeout string `group:"Price refreshes" env:"NOTIFYWORKER_RECOMPUTE_TIMEOUT" placeholder:"DURATION" help:"How long one chunk may take, and a call of the products function (default 30s)."`
	ArticleFunction  string `group:"Price refreshes" env:"NOTIFYWORKER_ARTICLE_FUNCTION" placeholder:"FUNCTION" help:"SQL function from a product id to its article (default: letters behind digits are variants)."`
	ProductsFunction string `group:"Price refreshes" env:"NOTIFYWORKER_PRODUCTS_FUNCTION" placeholder:"FUNCTION" help:"SQL function from a catalog id to its products, for full refreshes in chunks (default: the whole catalog in one call)."`
	Chunk            string `group:"Price refreshes" env:"NOTIFYWORKER_CHUNK" placeholder:"N" help:"Products in one call (default 500)."`
	Refreshes        string `group:"Price refreshes" env:"NOTIFYWORKER_REFRESHES" placeholder:"N" help:"Refreshes at once, of each database (default 8)."`
	RefreshQueue     string `group:"Price refreshes" env:"NOTIFYWORKER_REFRESH_QUEUE" placeholder:"N" help:"Accepted refreshes that may wait for their turn (default 64)."`

	HTTP            string `name:"http" group:"Watching" env:"NOTIFYWORKER_HTTP" placeholder:"HOST:PORT" help:"Where to serve /livez, /readyz and /metrics, or off (default 127.0.0.1:9787)."`
	RetainCompleted string `group:"Watching" env:"NOTIFYWORKER_RETAIN_COMPLETED" placeholder:"AGE" help:"Remove jobs that were COMPLETED so long ago, and refreshes that ended, or off (default 7d)."`
	RetainFailed    string `group:"Watching" env:"NOTIFYWORKER_RETAIN_FAILED" placeholder:"AGE" help:"Remove jobs that FAILED so long ago, with the ids in them, or off (default off)."`

	Handler []string `group:"Other jobs" env:"NOTIFYWORKER_HANDLER" placeholder:"TYPE=TARGET" help:"What works a type of job: sql:FUNCTION or an HTTP URL; may be repeated."`

	LogFormat string `group:"Log" env:"NOTIFYWORKER_LOG_FORMAT" placeholder:"FORMAT" help:"text or json (default: text on a terminal, else json)."`
	LogLevel  string `group:"Log" env:"NOTIFYWORKER_LOG_LEVEL" placeholder:"LEVEL" help:"debug, info, warn or error (default info)."`

	Bench string `hidden:"" help:"Work the jobs of the benchmark, which do nothing: quiet, or tell when each starts."`
}

// workerSettings are the same, checked.
type workerSettings struct {
	shards        []shard // at least one
	schema        string
	variant       string // "" is whatever is installed
	slots, maxIDs int
	startTimeout  time.Duration
	polling       bool
	pollEvery     time.Duration
	drain         time.Duration // 0 is none
	engine        *engineSettings
	handlers      map[string]handlerSettings
	types         map[string]queue.TypeSettings
	http          string // "" is none
	retain        queue.Retention
	logJSON       bool
	logLevel      zerolog.Level
	bench         string // "" outside of a benchmark
}

type engineSettings struct {
	target           target
	timeout          time.Duration
	article, product string // functions, "" for the default
	chunk            int
	refreshes, queue int
}

type handlerSettings struct {
	target  target
	timeout time.Duration // 0 is the handler's own default
}

// check returns the settings, or all that is wrong with them.
func (f *runFlags) check(file fileConfig) (workerSettings, error) {
	r := &reader{}
	s := workerSettings{schema: f.schema(), types: map[string]queue.TypeSettings{}, handlers: map[string]handlerSettings{}}
	shards, databaseErr := f.shards()
	listenErr := addListeners(shards, f.ListenURL)
	s.shards = shards
	s.polling = r.oneOf("wake", f.Wake, "notify", "notify", "poll") == "poll"
	standard := 30 * time.Second
	if s.polling {
		standard = time.Second
	}
	s.pollEvery = r.duration("poll_interval", f.PollInterval, standard, 10*time.Millisecond, time.Hour)
	s.startTimeout = r.duration("start_timeout", f.StartTimeout, time.Minute, 0, time.Hour)
	s.slots = r.integer("slots", f.Slots, 8, 1, 1000)
	s.variant = r.oneOf("variant", f.Variant, "", "advisory", "cte")
	s.types[""] = queue.TypeSettings{Lease: r.duration("lease", f.Lease, queue.DefaultLease, 500*time.Millisecond, time.Hour)}
	s.drain = r.duration("drain_timeout", f.DrainTimeout, 20*time.Second, 0, time.Hour)
	s.maxIDs = r.integer("max_ids", f.MaxIDs, 50_000, 1, 1_000_000)
	s.http = r.address("http", f.HTTP, "127.0.0.1:9787")
	s.retain = queue.Retention{Completed: r.age("retain_completed", f.RetainCompleted, 7*24*time.Hour), Failed: r.age("retain_failed", f.RetainFailed, 0)}
	s.logJSON = r.oneOf("log_format", f.LogFormat, formatOf(os.Stderr), "text", "json") == "json"
	s.bench = f.Bench
	s.logLevel, _ = zerolog.ParseLevel(r.oneOf("log_level", f.LogLevel, "info", "debug", "info", "warn", "error"))
	f.checkEngine(r, &s)
	f.checkTypes(r, &s, file)
	return s, errors.Join(databaseErr, listenErr, r.err())
}

func (f *runFlags) checkEngine(r *reader, s *workerSettings) {
	e := &engineSettings{
		timeout: r.duration("recompute_timeout", f.RecomputeTimeout, 30*time.Second, 10*time.Millisecond, time.Hour),
		article: r.function("article_function", f.ArticleFunction), product: r.function("products_function", f.ProductsFunction),
		chunk:     r.integer("chunk", f.Chunk, engine.DefaultChunk, 1, 50_000),
		refreshes: r.integer("refreshes", f.Refreshes, engine.DefaultRefreshes, 1, 256),
		queue:     r.integer("refresh_queue", f.RefreshQueue, engine.DefaultQueue, 1, 10_000),
	}
	switch strings.TrimSpace(f.Recompute) {
	case "":
		r.fail("recompute", "is not set: say what recomputes prices, such as sql:pricing.recompute or http://127.0.0.1:8080/recompute, or none for a worker of other jobs")
	case "none":
	default:
		e.target = r.target("recompute", strings.TrimSpace(f.Recompute))
		s.engine = e
	}
}

// checkTypes puts the types of the file and the handlers of the flags together; a flag wins.
func (f *runFlags) checkTypes(r *reader, s *workerSettings, file fileConfig) {
	for _, name := range slices.Sorted(maps.Keys(file.types)) {
		t := file.types[name]
		key := func(k string) string { return "types." + name + "." + k }
		if name == "" || len(name) > 200 {
			r.fail("types", "has a type with a name of %d bytes: give 1 to 200", len(name))
			continue
		}
		h := handlerSettings{timeout: r.duration(key("timeout"), t.values["timeout"], 0, 10*time.Millisecond, 24*time.Hour)}
		s.types[name] = queue.TypeSettings{
			MaxAttempts: r.integer(key("max_attempts"), t.values["max_attempts"], 0, 1, 1_000_000),
			BackoffBase: r.duration(key("backoff"), t.values["backoff"], 0, time.Millisecond, 24*time.Hour),
			BackoffCap:  r.duration(key("backoff_cap"), t.values["backoff_cap"], 0, time.Millisecond, 30*24*time.Hour),
			Lease:       r.duration(key("lease"), t.values["lease"], s.types[""].Lease, 500*time.Millisecond, time.Hour),
			Timeout:     h.timeout,
		}
		if err := s.types[name].WithDefaults(name).Validate(); err != nil {
			r.fail("types."+name, "can't be: %w", err)
		}
		url, function := t.values["url"], t.values["function"]
		switch {
		case name == queue.TypePriceRefresh:
			if url != "" || function != "" {
				r.fail("types."+name, "takes no url and no function: set engine.recompute")
			}
			continue
		case url != "" && function != "":
			r.fail("types."+name, "has both a url and a function: give one of them")
			continue
		case url != "":
			h.target.url = r.url(key("url"), url)
		case function != "":
			h.target.function = r.function(key("function"), function)
		case !slices.ContainsFunc(f.Handler, func(h string) bool { return strings.HasPrefix(strings.TrimSpace(h), name+"=") }):
			r.fail("types."+name, "has neither a url nor a function: give one of them, or --handler %s=TARGET", name)
			continue
		}
		s.handlers[name] = h
	}
	for _, text := range f.Handler {
		name, to, ok := strings.Cut(strings.TrimSpace(text), "=")
		if !ok || name == "" || to == "" || len(name) > 200 || strings.Contains(name, "://") {
			r.fail("handler", "is %q: give TYPE=TARGET, such as csv_import=http://127.0.0.1:8080/import", withoutQuery(text))
			continue
		}
		if name == queue.TypePriceRefresh {
			r.fail("handler", "can't be for %s: set recompute", name)
			continue
		}
		h := s.handlers[name]
		h.target = r.target(fmt.Sprintf("handler of %s", name), to)
		s.handlers[name] = h
	}
}
