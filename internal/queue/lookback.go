package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Behind is what lies behind the place where Reserve's looks start.
type Behind struct {
	Job   bool      // a job is due there: the next Reserve starts at it
	Lease time.Time // when the next lease of a job or a refresh ends, which Reserve may not have told of; zero: none, or not asked
	Again time.Time // when to look again; zero: when a Reservation says so
}

// LookBetween looks for a job that committed late, but less than half a minute, and for the next lease that ends. LookBetween and
// LookBack take nothing and hold up no Reserve. They do nothing before their time has come, see Reservation. Each is for a
// goroutine of its own, one call at a time: LookBack takes longer than a job may wait for LookBetween.
func (s *Store) LookBetween(ctx context.Context) (Behind, error) {
	return s.lookBehind(ctx, between)
}

// LookBack looks for a job that has been due for longer than that. It reads what nobody else has to read any more, which can
// take seconds.
func (s *Store) LookBack(ctx context.Context) (Behind, error) {
	return s.lookBehind(ctx, full)
}

func (s *Store) lookBehind(ctx context.Context, r reach) (b Behind, err error) {
	defer func() { b.Again = s.looks.whenBehind(r) }()
	k, to, ok := s.looks.behind(r)
	if !ok {
		return b, nil
	}
	ctx, done := s.bound(ctx)
	defer done()
	var edge time.Time
	var due *time.Time
	var lease *float64
	var ms float64 // by the server, as in Reserve: the network has no part in it
	upTo := pgtype.Timestamptz{Time: to, Valid: !to.IsZero()}
	err = s.cfg.DB.QueryRow(ctx, s.sql.lookBack, k.timestamp(), upTo, float64(lateForBetween.Milliseconds())).Scan(&edge, &due, &lease, &ms)
	if err != nil {
		s.looks.failed(r)
		s.redial(err)
		return b, fmt.Errorf("look back: %w", err)
	}
	if lease != nil {
		b.Lease = time.Now().Add(time.Duration(*lease * float64(time.Millisecond)))
	}
	b.Job = s.looks.lookedBehind(r, edge, due, time.Duration(ms*float64(time.Millisecond)))
	return b, nil
}
