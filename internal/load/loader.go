package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// Config is complete when Source and Connection are set; every other zero value is a working default.
type Config struct {
	Source      io.Reader        // the tariff file, CSV or gzipped CSV
	Connection  *pgx.ConnConfig  // of the database that holds both the sample application and the queue
	Schema      string           // of the queue; "" means notifyworker
	Connections int              // updates at once; 0 means 8. Which tariff stays does not depend on it
	Speed       float64          // replay with the file's own timing, so many times faster; 0 means as fast as possible
	Rejected    func(Reject)     // told of each line that can't be published, one at a time; may be nil
	Retryable   func(error) bool // whether a database error is worth another try; nil means none is
	RetryFor    time.Duration    // how long to go on trying one update; 0 means 2 minutes
	Timeout     time.Duration    // how long one try may take; 0 means a minute
	Published   func(Update)     // told of each update that is in, from several goroutines at once; may be nil
}

// Loader publishes one file. Make it with New, then Run it once; Counts may be read meanwhile.
type Loader struct {
	cfg    Config
	counts Counts
	mu     sync.Mutex // one reject is reported at a time
}

// New checks the configuration and says all that is wrong with it at once. It opens nothing.
func New(cfg Config) (*Loader, error) {
	var errs []error
	if cfg.Source == nil {
		errs = append(errs, errors.New("no file to load"))
	}
	if cfg.Connection == nil {
		errs = append(errs, errors.New("no database to load into"))
	}
	if cfg.Connections < 0 || cfg.Connections > 64 {
		errs = append(errs, fmt.Errorf("connections is %d: give a number from 1 to 64", cfg.Connections))
	}
	if cfg.Speed < 0 {
		errs = append(errs, fmt.Errorf("speed is %v: give a positive number, or 0 for as fast as possible", cfg.Speed))
	}
	if cfg.Connections == 0 {
		cfg.Connections = 8
	}
	if cfg.Schema == "" {
		cfg.Schema = "notifyworker"
	}
	if cfg.Retryable == nil {
		cfg.Retryable = func(error) bool { return false }
	}
	if cfg.RetryFor == 0 {
		cfg.RetryFor = 2 * time.Minute
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	return &Loader{cfg: cfg}, errors.Join(errs...)
}

// Counts is what has been done so far.
func (l *Loader) Counts() *Counts { return &l.counts }

// Run publishes the file. When ctx ends it finishes the updates that are under way, leaves the rest, and returns ctx's
// error. An error means that not all was published; Counts says what was.
func (l *Loader) Run(ctx context.Context) error {
	l.counts.start()
	defer l.counts.stop()
	start, err := l.position(ctx)
	if err != nil {
		return err
	}
	// Whoever fails stops the others; whoever publishes finishes the update it has.
	end, stop := context.WithCancel(ctx)
	defer stop()
	g, gctx := errgroup.WithContext(end)
	reader, err := NewReader(&stoppable{ctx: gctx, r: l.cfg.Source}, &l.counts.Bytes, l.reject)
	if err != nil {
		return err
	}
	updates := make(chan Update, 2*l.cfg.Connections)
	g.Go(func() error {
		defer close(updates)
		return l.read(gctx, reader, updates)
	})
	for range l.cfg.Connections {
		g.Go(func() error { return l.publishAll(gctx, start, updates) })
	}
	err = g.Wait()
	l.counts.Line.Store(int64(reader.Line()))
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// position reserves the place of this load among all publications.
func (l *Loader) position(ctx context.Context) (start int64, err error) {
	conn, err := l.cfg.connect(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing was written
	if err := conn.QueryRow(ctx, "SELECT pricing.start_publication()").Scan(&start); err != nil {
		return 0, fmt.Errorf("begin the publication: %w", err)
	}
	return start, nil
}

func (l *Loader) read(ctx context.Context, r *Reader, updates chan<- Update) error {
	pace := pacer{speed: l.cfg.Speed}
	for {
		u, err := r.Next()
		if err == io.EOF || ctx.Err() != nil { // what was cut off by a stop is not published
			return nil
		}
		if err != nil {
			return err
		}
		if !pace.wait(ctx, u.Rows[0].PublishedAt) {
			return nil
		}
		select {
		case updates <- u:
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *Loader) publishAll(ctx context.Context, start int64, updates <-chan Update) error {
	p := &publisher{cfg: &l.cfg, start: start, counts: &l.counts, enqueueSQL: fmt.Sprintf(
		"SELECT joined FROM %s.enqueue_price_refreshes($1::jsonb, trace_id => $2)", pgx.Identifier{l.cfg.Schema}.Sanitize())}
	defer p.disconnect()
	for {
		var u Update
		var ok bool
		select {
		case <-ctx.Done():
			return nil
		case u, ok = <-updates:
			if !ok {
				return nil
			}
		}
		if ctx.Err() != nil { // select picks at random when both are ready
			return nil
		}
		err := l.finish(ctx, p, u)
		switch {
		case err == nil:
			if l.cfg.Published != nil {
				l.cfg.Published(u)
			}
		case badData(err):
			for _, r := range u.Rows {
				l.reject(Reject{
					Line: r.Line, Reason: "the database refused the update: " + errors.Unwrap(err).Error(),
					Text: strings.Join([]string{r.PublishedAt.Format(time.RFC3339), r.UpdateID, r.CatalogID, r.ProductID, r.UnitPrice}, ","),
				})
			}
		default:
			return err
		}
	}
}

// finish publishes u even though ctx ends meanwhile, but then only for a few seconds more.
func (l *Loader) finish(ctx context.Context, p *publisher, u Update) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(5 * time.Second):
			cancel()
		case <-own.Done():
		}
	})
	defer stop()
	return p.publish(own, u)
}

func (l *Loader) reject(r Reject) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Rejected.Add(1)
	if l.cfg.Rejected != nil {
		l.cfg.Rejected(r)
	}
}

func (c *Config) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return pgx.ConnectConfig(ctx, c.Connection.Copy())
}

// jitter spreads a wait over its upper half.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
