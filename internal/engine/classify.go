package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"notifyworker/internal/queue"
	"notifyworker/internal/webcall"

	"github.com/jackc/pgx/v5/pgconn"
)

// trouble is what an error of a recomputation says of the next try.
type trouble int

const (
	outage  trouble = iota // it could not be asked, or says nothing of the products: try for long
	later                  // it said "not now" and when: try then
	data                   // it can't digest these products: try a few times, then in parts
	suspect                // either of the last but one and this: try for long, and in halves in between
)

// dataClasses are SQLSTATE classes of errors that come from what a function was given: a wrong count of rows, bad values,
// violated constraints, a broken CHECK OPTION, limits, and what the function raised itself.
var dataClasses = []string{"21", "22", "23", "44", "54", "P0"}

const (
	notNow    = "NW429" // a user's function says "not now"; seconds in DETAIL
	permanent = "NW422" // a user's function says "never"

	defaultLater, maxLater = 5 * time.Second, time.Hour
)

// classify tells the troubles apart; delay is for later.
func classify(err error) (t trouble, delay time.Duration) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case pg.Code == notNow:
			return later, notNowDelay(pg)
		case pg.Code == permanent:
			return data, 0
		case pg.Code == "57014": // statement_timeout: the chunk may be too large
			return suspect, 0
		case queue.Retryable(err):
			return outage, 0
		}
		for _, c := range dataClasses {
			if strings.HasPrefix(pg.Code, c) {
				return data, 0
			}
		}
		return suspect, 0
	}
	if w := webcall.As(err); w != nil {
		switch w.Kind {
		case webcall.Later:
			return later, w.Delay
		case webcall.Rejected:
			return data, 0
		case webcall.Broken, webcall.TimedOut, webcall.BadAnswer:
			return suspect, 0
		}
		return outage, 0
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return suspect, 0
	}
	if queue.Retryable(err) {
		return outage, 0
	}
	return suspect, 0
}

// notNowDelay reads the seconds of a "not now", 5 s where there are none.
func notNowDelay(pg *pgconn.PgError) time.Duration {
	s, err := strconv.ParseFloat(strings.TrimSpace(pg.Detail), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || s < 0 || s != s {
		return defaultLater
	}
	return time.Duration(min(s, maxLater.Seconds()) * float64(time.Second))
}
