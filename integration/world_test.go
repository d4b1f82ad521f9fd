package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

const workerID = "aaaaaaaa-0000-4000-8000-000000000001"

// fact is a product id that somebody was promised: its JSON text, and its catalog.
type fact struct{ catalog, id string }

// world is what a script knows of the database: what was promised, and to whom.
type world struct {
	mu       sync.Mutex // steps of several sessions may be under way at once
	observer *pgx.Conn
	stores   map[*pgx.Conn]*queue.Store

	kept    map[fact]bool  // committed
	dropped map[fact]bool  // rolled back
	excused map[fact]bool  // deleted by hand
	told    map[int64]bool // job ids that enqueuers were told, and committed
	seen    map[int64]bool // job ids that some look has seen
	byHand  bool           // a waiting job was deleted by hand: until the next sweep its additions have none
	open    int            // clients' transactions that are open
	holders int            // of these and of workers', those that hold a waiting job's row

	running, failed, waiting int64 // the scene's jobs, 0 when it has none
	token                    string
}

func newWorld(observer *pgx.Conn, stores map[*pgx.Conn]*queue.Store) *world {
	return &world{observer: observer, stores: stores}
}

// store is the product's own Go on a session's connection, inside its transaction if it has one open.
func (w *world) store(c *pgx.Conn) *queue.Store {
	s := w.stores[c]
	if s == nil {
		var err error
		if s, err = queue.New(queue.Config{DB: c, WorkerID: workerID}); err != nil {
			panic(err) // the configuration is two lines above
		}
		w.stores[c] = s
	}
	return s
}

// row is a job, as far as the verdict needs it.
type row struct {
	ID        int64             `json:"id"`
	Catalog   string            `json:"catalog_id"`
	Status    string            `json:"status"`
	IDs       []json.RawMessage `json:"ids"`
	Into      *int64            `json:"into"`
	Successor bool              `json:"successor"`
	Attempts  int               `json:"attempts"`
}

// addition is a row of job_additions.
type addition struct {
	Catalog string            `json:"catalog_id"`
	IDs     []json.RawMessage `json:"product_ids"`
	Marked  bool              `json:"marked"`
	From    *int64            `json:"from_job_id"`
	Told    *int64            `json:"job_id"`
}

// state is both tables in one snapshot.
type state struct {
	Jobs      []row      `json:"jobs"`
	Additions []addition `json:"additions"`
}

const readState = `SELECT json_build_object(
	'jobs', (SELECT coalesce(json_agg(json_build_object('id', id, 'catalog_id', catalog_id, 'status', status,
	             'ids', config -> 'productIds', 'into', result -> 'mergedIntoJobId', 'successor', successor, 'attempts', attempts) ORDER BY id), '[]')
	           FROM notifyworker.jobs WHERE type = 'PRICE_REFRESH'),
	'additions', (SELECT coalesce(json_agg(json_build_object('catalog_id', catalog_id, 'product_ids', product_ids, 'marked', marked,
	             'from_job_id', from_job_id, 'job_id', job_id) ORDER BY id), '[]') FROM notifyworker.job_additions))`

func read(ctx context.Context, c *pgx.Conn) (*state, error) {
	var text []byte
	if err := c.QueryRow(ctx, readState).Scan(&text); err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	return &s, nil
}

func (s *state) job(id int64) *row {
	if i := slices.IndexFunc(s.Jobs, func(j row) bool { return j.ID == id }); i >= 0 {
		return &s.Jobs[i]
	}
	return nil
}

// has says whether all ids are in a job's config.
func (j *row) has(ids []json.RawMessage) bool {
	for _, id := range ids {
		if !slices.ContainsFunc(j.IDs, func(x json.RawMessage) bool { return string(x) == string(id) }) {
			return false
		}
	}
	return true
}

// look says what does not hold now, whatever is under way. It is asked after every step.
func (w *world) look(ctx context.Context, waiting bool) error {
	s, err := read(ctx, w.observer)
	if err != nil {
		return err
	}
	errs := w.lookAt(s)
	if waiting {
		errs = append(errs, w.othersGoOn(ctx))
	}
	if w.open > 0 && w.holders == 0 && len(errs) == 0 {
		errs = append(errs, w.catalogGoesOn(ctx, s))
	}
	if err := errors.Join(errs...); err != nil {
		text, _ := json.Marshal(s)
		return fmt.Errorf("%w\n\ttables: %s", err, text)
	}
	return nil
}

func (w *world) lookAt(s *state) []error {
	var errs []error
	there := map[fact]bool{}
	pending := map[string]int{}
	for _, j := range s.Jobs {
		w.seen[j.ID] = true
		for _, id := range j.IDs {
			there[fact{j.Catalog, string(id)}] = true
		}
		if j.Status == "PENDING" {
			pending[j.Catalog]++
		}
	}
	for _, a := range s.Additions {
		for _, id := range a.IDs {
			there[fact{a.Catalog, string(id)}] = true
		}
		if !a.Marked && a.Catalog != "" && pending[a.Catalog] == 0 && !w.byHand {
			errs = append(errs, fmt.Errorf("an unmarked addition of catalog %s has no waiting job", a.Catalog))
		}
	}
	for f := range w.kept {
		if !there[f] && !w.excused[f] {
			errs = append(errs, fmt.Errorf("product id %s of catalog %s is lost", f.id, f.catalog))
		}
	}
	for f := range w.dropped {
		if there[f] {
			errs = append(errs, fmt.Errorf("product id %s of catalog %s was rolled back and is there", f.id, f.catalog))
		}
	}
	for c, n := range pending {
		if n > 1 {
			errs = append(errs, fmt.Errorf("%d jobs wait for catalog %s", n, c))
		}
	}
	return append(errs, mergesAreExact(s)...)
}

// mergesAreExact: who says that it was merged into a job has its ids there, or in an addition that will correct it.
func mergesAreExact(s *state) []error {
	var errs []error
	for _, j := range s.Jobs {
		if j.Into == nil {
			continue
		}
		if j.Status == "COMPLETED" && slices.ContainsFunc(s.Additions, func(a addition) bool { return a.From != nil && *a.From == j.ID }) {
			continue
		}
		into := s.job(*j.Into)
		if j.Status == "COMPLETED" && (into == nil || !into.has(j.IDs)) {
			errs = append(errs, fmt.Errorf("job %d says that it was merged into job %d, which has not all of its ids", j.ID, *j.Into))
		}
	}
	return errs
}

// catalogGoesOn: while clients' transactions are open, a worker gets all that is committed.
func (w *world) catalogGoesOn(ctx context.Context, s *state) error {
	there := map[fact]bool{}
	for _, j := range s.Jobs {
		if j.Status != "PENDING" && j.Into == nil {
			for _, id := range j.IDs {
				there[fact{j.Catalog, string(id)}] = true
			}
		}
	}
	_, err := w.observer.Exec(ctx, `BEGIN; SET LOCAL lock_timeout = '3s'; SET LOCAL statement_timeout = '20s'; `+allIsDue)
	var r queue.Reservation
	if err == nil {
		r, err = w.store(w.observer).Reserve(ctx, 100)
	}
	_, end := w.observer.Exec(ctx, `ROLLBACK`)
	if err = errors.Join(err, r.Poisoned, end); err != nil {
		return fmt.Errorf("the catalog is held up: %w", err)
	}
	for _, j := range r.Jobs {
		var c queue.PriceRefreshConfig
		if err := json.Unmarshal(j.Config, &c); err != nil {
			return err
		}
		for _, id := range c.ProductIDs {
			there[fact{j.CatalogID, string(id)}] = true
		}
	}
	var errs []error
	for f := range w.kept {
		if !there[f] && !w.excused[f] && !w.byHand {
			errs = append(errs, fmt.Errorf("product id %s of catalog %s is held up by a client's open transaction", f.id, f.catalog))
		}
	}
	return errors.Join(errs...)
}

// othersGoOn: while somebody waits, another catalog is enqueued and reserved as ever.
func (w *world) othersGoOn(ctx context.Context) error {
	_, err := w.observer.Exec(ctx, `BEGIN; SET LOCAL lock_timeout = '3s'`)
	if err == nil {
		_, err = w.observer.Exec(ctx, `SELECT notifyworker.enqueue_price_refresh('another', '["x"]')`)
	}
	if err == nil {
		_, err = w.store(w.observer).Reserve(ctx, 10)
	}
	_, end := w.observer.Exec(ctx, `ROLLBACK`)
	if err = errors.Join(err, end); err != nil {
		return fmt.Errorf("another catalog is held up: %w", err)
	}
	return nil
}

// opens counts transactions; steps of several sessions may be under way at once.
func (w *world) opens(clients, holders int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open += clients
	w.holders += holders
}
