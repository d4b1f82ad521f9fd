package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sent counts the statements that connections send; a transaction's begin and commit are some. The zero value counts from 0; it is
// safe for concurrent use.
type Sent struct{ n, pings atomic.Uint64 }

// Count returns how many there have been.
func (s *Sent) Count() uint64 { return s.n.Load() }

// Pings returns how often a pool asked whether an idle connection still lives: a round trip, but no statement.
func (s *Sent) Pings() uint64 { return s.pings.Load() }

// By makes it count those of the connections that are made of cfg.
func (s *Sent) By(cfg *pgx.ConnConfig) { cfg.Tracer = s }

// TraceQueryStart implements pgx.QueryTracer.
func (s *Sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*Sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (*Sent) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer: each statement of a batch is one.
func (s *Sent) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) { s.n.Add(1) }

// TraceBatchEnd implements pgx.BatchTracer.
func (*Sent) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

const (
	// A connection that was idle for longer is asked whether it still lives before it is used: pgxpool's own rule.
	pingAfter = time.Second
	// When the server was just heard of on another connection, one that was idle for up to this is used unasked: a job waits
	// for the answer. A worker's beat uses a connection every 4 s, so none that is used has been idle for much longer.
	pingAfterNews = 10 * time.Second
)

// newsOf marks the context of a call that is made because the server has just told of something.
type newsOf struct{}

func withNews(ctx context.Context) context.Context { return context.WithValue(ctx, newsOf{}, true) }

func shouldPing(ctx context.Context, idle time.Duration) bool {
	if ctx.Value(newsOf{}) != nil {
		return idle > pingAfterNews
	}
	return idle > pingAfter
}

func (s *Sent) byPool(cfg *pgxpool.Config) {
	s.By(cfg.ConnConfig)
	cfg.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		ping := shouldPing(ctx, p.IdleDuration)
		if ping {
			s.pings.Add(1)
		}
		return ping
	}
}
