package queue

import (
	"context"
	"fmt"
	"time"
)

// LookBack looks for a job that has been due for so long that Reserve's looks start behind it, and has the next Reserve start
// there. It says whether there is one. It does nothing before its time has come, see Reservation. It reads what nobody else
// has to read any more, which can take seconds: it is for a goroutine that has time, and one call at a time is enough.
func (s *Store) LookBack(ctx context.Context) (found bool, err error) {
	if !s.looks.lookBack() {
		return false, nil
	}
	ctx, done := s.bound(ctx)
	defer done()
	var edge time.Time
	var due *time.Time
	var ms float64 // by the server, as in Reserve: the network has no part in it
	if err := s.cfg.DB.QueryRow(ctx, s.sql.lookBack, float64(lateForBetween.Milliseconds())).Scan(&edge, &due, &ms); err != nil {
		s.redial(err)
		return false, fmt.Errorf("look back: %w", err)
	}
	return s.looks.lookedBack(edge, due, time.Duration(ms*float64(time.Millisecond))), nil
}
