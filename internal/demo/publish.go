package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// product is one that the sample has brought in.
type product struct{ catalog, code, article string }

// publisher plays a supplier: tariff updates of one or a few products, at random moments. One goroutine uses it.
type publisher struct {
	set      set
	conn     *pgx.Conn
	every    time.Duration // between updates, on average
	products []product
	variants [][]product  // of one article in one catalog, where there are several
	exact    bool         // the server records commit times
	count    atomic.Int64 // updates committed
}

func newPublisher(ctx context.Context, conn *pgx.Conn, s set, rate float64, exact bool) (*publisher, error) {
	p := &publisher{set: s, conn: conn, every: time.Duration(float64(time.Second) / rate), exact: exact}
	rows, err := conn.Query(ctx, `SELECT t.catalog_id, t.product_id, p.article_id FROM pricing.supplier_tariffs t JOIN pricing.products p ON p.code = t.product_id
		WHERE (t.catalog_id LIKE '% (polled)') = $1 ORDER BY 1, 2`, s.suffix != "")
	if err != nil {
		return nil, fmt.Errorf("read the products: %w", err)
	}
	p.products, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (x product, err error) {
		return x, r.Scan(&x.catalog, &x.code, &x.article)
	})
	if err != nil {
		return nil, fmt.Errorf("read the products: %w", err)
	}
	articles := map[[2]string][]product{}
	for _, x := range p.products {
		k := [2]string{x.catalog, x.article}
		articles[k] = append(articles[k], x)
	}
	for _, x := range p.products {
		if v := articles[[2]string{x.catalog, x.article}]; len(v) > 1 && v[0] == x {
			p.variants = append(p.variants, v)
		}
	}
	if len(p.products) == 0 || len(p.variants) == 0 {
		return nil, errors.New("the sample has brought no products in")
	}
	return p, nil
}

// run publishes until ctx ends, which is no error; an update that is under way is finished.
func (p *publisher) run(ctx context.Context) error {
	own := context.WithoutCancel(ctx)
	for n := 1; pause(ctx, time.Duration(rand.ExpFloat64()*float64(p.every))); n++ {
		if n%12 != 0 {
			if err := p.publish(own, p.some()...); err != nil {
				return err
			}
			continue
		}
		// Now and then the variants of one article come right after each other, while the first is being recomputed: the
		// engine refuses the second, which is requeued; and what comes meanwhile is merged.
		for _, x := range p.variants[rand.IntN(len(p.variants))] {
			if err := p.publish(own, x); err != nil {
				return err
			}
			if !pause(ctx, 4*time.Millisecond) {
				return nil
			}
		}
	}
	return nil
}

// some are one to four products of one catalog.
func (p *publisher) some() []product {
	first := rand.IntN(len(p.products))
	var some []product
	for _, x := range p.products[first:min(first+1+rand.IntN(4), len(p.products))] {
		if x.catalog == p.products[first].catalog {
			some = append(some, x)
		}
	}
	return some
}

// publish is what an API pod does, in one transaction and one round trip, and a line in the ledger.
func (p *publisher) publish(ctx context.Context, products ...product) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	now := time.Now()
	catalog := products[0].catalog
	var at []time.Time
	var catalogs, codes, prices []string
	for _, x := range products {
		at, catalogs, codes = append(at, now), append(catalogs, catalog), append(codes, x.code)
		prices = append(prices, fmt.Sprintf("%d.%02d", rand.IntN(20), rand.IntN(100)))
	}
	ids, err := json.Marshal(codes)
	if err != nil {
		return fmt.Errorf("write the product ids: %w", err)
	}
	var b pgx.Batch
	b.Queue("SELECT pricing.publish_tariffs($1, $2, $3, $4, $5::text[]::numeric[])", fmt.Sprintf("demo-%d", p.count.Load()+1), at, catalogs, codes, prices).
		Exec(func(pgconn.CommandTag) error { return nil })
	b.Queue(`INSERT INTO demo.ledger (queue, catalog_id, product_ids, joined)
		SELECT $1, $2, $3::jsonb, e.joined FROM `+pgx.Identifier{p.set.schema}.Sanitize()+`.enqueue_price_refresh($2, $3::jsonb) e RETURNING id`,
		p.set.schema, catalog, string(ids))
	results := p.conn.SendBatch(ctx, &b)
	var id int64
	_, err = results.Exec()
	if err == nil {
		err = results.QueryRow().Scan(&id)
	}
	if err := errors.Join(err, results.Close()); err != nil {
		return fmt.Errorf("publish an update %s: %w", p.set.name, err)
	}
	p.count.Add(1)
	if p.exact {
		return nil
	}
	// This server keeps no commit times: the clock right after the commit is the closest that can be had.
	if _, err := p.conn.Exec(ctx, "UPDATE demo.ledger SET committed_at = clock_timestamp() WHERE id = $1", id); err != nil {
		return fmt.Errorf("note the time of a commit: %w", err)
	}
	return nil
}

// pause says whether ctx is still going on after d.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
