package engine

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Refusals of Submit: "not now". The job is untouched.
var (
	// ErrProductRefreshInFlight: a product asked for, or a variant of the same article, is in an active refresh of the
	// catalog, on any process; or the whole catalog is asked for and any refresh of it is active.
	ErrProductRefreshInFlight = errors.New("a refresh of one of the products, or of a variant of it, is in flight")
	// ErrFullRefreshCatalogInFlight: a full refresh of the catalog is active, on any process.
	ErrFullRefreshCatalogInFlight = errors.New("a full refresh of the catalog is in flight")
	// ErrQueueFull: this engine runs and keeps waiting as many refreshes as it may.
	ErrQueueFull = errors.New("the runner's queue is full")
	// ErrRunnerStopped: this engine is shutting down, or not running yet.
	ErrRunnerStopped = errors.New("the runner is stopped")
)

// ErrRefreshLost says that a refresh is no longer ACTIVE under this process's token: another has taken it over, or it has
// ended, and nothing was written.
var ErrRefreshLost = errors.New("the refresh is lost: it is not active under this token")

var (
	errHandBack  = errors.New("the runner is shutting down")
	errLeaseOver = errors.New("no heartbeat extended the lease until it was over")
	errBadConfig = errors.New("can't read the config")
	errRowLocked = errors.New("the job's row is locked by another session")
)

// blocked is a refusal that a refresh is the reason of.
type blocked struct {
	refusal error
	by      int64
}

func (b *blocked) Error() string { return fmt.Sprintf("%v: refresh %d", b.refusal, b.by) }
func (b *blocked) Unwrap() error { return b.refusal }

// lostSQL is the SQLSTATE by which recompute_chunk says that the refresh is lost.
const lostSQL = "NW410"

// pastSQL is the one by which it says that the chunk is dealt with already.
const pastSQL = "NW411"

func isPast(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == pastSQL
}

func isLost(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, ErrRefreshLost) || errors.As(err, &pg) && pg.Code == lostSQL
}
