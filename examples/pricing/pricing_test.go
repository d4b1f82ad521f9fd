package pricing_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"notifyworker/examples/pricing"
	"notifyworker/internal/pgtest"
)

func install(t *testing.T) (*pgtest.Database, *pgx.Conn) {
	t.Helper()
	db := pgtest.Empty(t)
	conn := db.Conn(t)
	if err := pricing.Install(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	return db, conn
}

// publish says one message of lines "catalog/product/price" published at a minute; position NULL means the next one.
func publish(t *testing.T, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, update string, minute int, position any, lines ...string,
) (applied int) {
	t.Helper()
	var at []time.Time
	var catalogs, products, prices []string
	for _, l := range lines {
		f := strings.Split(l, "/")
		at = append(at, time.Date(2024, 1, 1, 0, minute, 0, 0, time.UTC))
		catalogs, products, prices = append(catalogs, f[0]), append(products, f[1]), append(prices, f[2])
	}
	err := q.QueryRow(t.Context(), "SELECT pricing.publish_tariffs($1, $2, $3, $4, $5::text[]::numeric[], $6)",
		update, at, catalogs, products, prices, position).Scan(&applied)
	if err != nil {
		t.Fatalf("publish %s: %v", update, err)
	}
	return applied
}

func tariff(t *testing.T, conn *pgx.Conn, catalog, product string) (price string) {
	t.Helper()
	err := conn.QueryRow(t.Context(), "SELECT unit_price::text || ' of ' || update_id FROM pricing.supplier_tariffs WHERE (catalog_id, product_id) = ($1, $2)",
		catalog, product).Scan(&price)
	if err != nil {
		t.Fatal(err)
	}
	return price
}

func mismatches(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT mismatches FROM pricing.verdict()").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func recompute(t *testing.T, conn *pgx.Conn, catalog string, ids any) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT pricing.recompute($1, $2)", catalog, ids).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInstallCanBeRepeatedAndByTenAtOnce(t *testing.T) {
	db := pgtest.Empty(t)
	var g errgroup.Group
	for range 10 {
		conn := db.Conn(t)
		g.Go(func() error { return pricing.Install(t.Context(), conn) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	conn := db.Conn(t)
	publish(t, conn, "u1", 1, nil, "garden/p1/2.00")
	if err := pricing.Install(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if got := tariff(t, conn, "garden", "p1"); got != "2.00 of u1" {
		t.Errorf("after another install the tariff is %s", got)
	}
	db.NoServerErrors(t)
}

func TestWhichTariffStays(t *testing.T) {
	_, conn := install(t)
	publish(t, conn, "u1", 5, nil, "c/p/1", "c/p/2", "d/p/9")
	if got := tariff(t, conn, "c", "p"); got != "2 of u1" {
		t.Errorf("of two lines of one message %s stays, want the later one", got)
	}
	if n := publish(t, conn, "old", 4, nil, "c/p/7"); n != 0 {
		t.Errorf("an older message changed %d tariffs", n)
	}
	publish(t, conn, "same-minute", 5, nil, "c/p/3")
	if got := tariff(t, conn, "c", "p"); got != "3 of same-minute" {
		t.Errorf("of two messages of the same moment %s stays, want the one that came later", got)
	}
	var start int64
	if err := conn.QueryRow(t.Context(), "SELECT pricing.start_publication()").Scan(&start); err != nil {
		t.Fatal(err)
	}
	publish(t, conn, "line 20", 5, start+20, "c/p/20")
	publish(t, conn, "line 10", 5, start+10, "c/p/10")
	publish(t, conn, "line 20", 5, start+20, "c/p/20")
	if got := tariff(t, conn, "c", "p"); got != "20 of line 20" {
		t.Errorf("%s stays, want the higher position, in whatever order they come", got)
	}
	publish(t, conn, "new", 6, nil, "c/p/0.00")
	if got := tariff(t, conn, "c", "p"); got != "0.00 of new" {
		t.Errorf("%s stays, want the free one that is newer", got)
	}
	if got := tariff(t, conn, "d", "p"); got != "9 of u1" {
		t.Errorf("the other catalog's tariff is %s", got)
	}
}

func TestTariffsThatCantBeAreRefused(t *testing.T) {
	_, conn := install(t)
	for _, price := range []string{"-0.01", "NaN", "Infinity"} {
		_, err := conn.Exec(t.Context(), "SELECT pricing.publish_tariffs('u', ARRAY[now()], '{c}', '{p}', ARRAY[$1::text::numeric])", price)
		if err == nil {
			t.Errorf("a price of %s was taken", price)
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT pricing.publish_tariffs('u', ARRAY[now()], '{c,d}', '{p}', '{1}')"); err == nil {
		t.Error("arrays of different lengths were taken")
	}
	if _, err := conn.Exec(t.Context(), `SELECT pricing.recompute('c', '"p"')`); err == nil {
		t.Error("product ids that are no array were taken")
	}
}

func TestPricesFollowTheRules(t *testing.T) {
	_, conn := install(t)
	for _, tt := range []struct{ unit, margin, step, least, want string }{
		{"10", "0.25", "0.01", "0", "12.50"},
		{"10.01", "0.25", "0.05", "0", "12.50"},
		{"0.01", "0.25", "0.05", "0.50", "0.50"},
		{"0", "0.25", "0.05", "0.50", "0"},
		{"0.10", "0.25", "0.25", "0", "0.25"}, // half a step goes up
		{"12345678901234567890.12", "0", "0.01", "0", "12345678901234567890.12"},
	} {
		var right bool
		err := conn.QueryRow(t.Context(), "SELECT pricing.expected_price($1::text::numeric, $2::text::numeric, $3::text::numeric, $4::text::numeric) = $5::text::numeric",
			tt.unit, tt.margin, tt.step, tt.least, tt.want).Scan(&right)
		if err != nil || !right {
			t.Errorf("%+v: %v, %v", tt, right, err)
		}
	}
}

func TestVariantsHaveOneArticle(t *testing.T) {
	_, conn := install(t)
	for code, want := range map[string]string{
		"85123A": "85123", "85123a": "85123", "85123": "85123", "21000AB": "21000",
		"POST": "POST", "gift_0001_20": "gift_0001_20", "12A3": "12A3", "": "", "85123 A": "85123 A", "DCGS0003": "DCGS0003",
	} {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT pricing.article_of($1)", code).Scan(&got); err != nil || got != want {
			t.Errorf("article of %q is %q (%v), want %q", code, got, err, want)
		}
	}
}

func TestRecomputeSomeAndAll(t *testing.T) {
	_, conn := install(t)
	publish(t, conn, "u1", 1, nil, "c/p1/1.00", "c/p2/2.00", "c/12/3.00", "d/p1/4.00")
	if n := mismatches(t, conn); n != 4 {
		t.Errorf("%d mismatches before, want 4", n)
	}
	if n := recompute(t, conn, "c", `["p1","p1","unknown",12]`); n != 2 {
		t.Errorf("recomputed %d, want p1 and 12", n)
	}
	if n := mismatches(t, conn); n != 2 {
		t.Errorf("%d mismatches, want 2", n)
	}
	if n := recompute(t, conn, "c", nil); n != 3 {
		t.Errorf("recomputed %d of the whole catalog, want 3", n)
	}
	if n := recompute(t, conn, "c", `[]`); n != 0 {
		t.Errorf("recomputed %d of no ids", n)
	}
	recompute(t, conn, "d", nil)
	if n := mismatches(t, conn); n != 0 {
		t.Errorf("%d mismatches at the end", n)
	}
	if _, err := conn.Exec(t.Context(), "UPDATE pricing.catalogs SET margin = 0.5 WHERE id = 'c'"); err != nil {
		t.Fatal(err)
	}
	if n := mismatches(t, conn); n != 3 {
		t.Errorf("%d mismatches after new rules, want 3", n)
	}
	if n := recompute(t, conn, "c", nil); n != 3 || mismatches(t, conn) != 0 {
		t.Errorf("recomputed %d, mismatches %d", n, mismatches(t, conn))
	}
}

// A recompute that began before a publication and ends after the next recompute must not put the old price back.
func TestARecomputeThatIsLateReadsTheNewTariff(t *testing.T) {
	db, conn := install(t)
	publish(t, conn, "u1", 1, nil, "c/p/1.00")
	recompute(t, conn, "c", `["p"]`)
	first, second := db.Conn(t), db.Conn(t)
	tx, err := first.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT pricing.recompute('c', '["p"]')`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := second.Exec(t.Context(), `SELECT pricing.recompute('c', '["p"]')`)
		done <- err
	}()
	pgtest.WaitBlocked(t, conn, second.PgConn().PID())
	publish(t, conn, "u2", 2, nil, "c/p/2.00") // not held up by either
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := mismatches(t, conn); n != 0 {
		t.Error("the second recompute began before the publication and waited, yet wrote the price of the old tariff")
	}
}

// Many publishers and recomputers at once on few products: no deadlock, and after a last recompute of what each published
// every price is right.
func TestPublishersAndRecomputersAtOnce(t *testing.T) {
	db, conn := install(t)
	var g errgroup.Group
	var mu sync.Mutex
	next := 0
	for w := range 8 {
		c := db.Conn(t)
		g.Go(func() error {
			for range 60 {
				mu.Lock()
				next++
				n := next
				mu.Unlock()
				ids, at, catalogs, prices := []string{}, []time.Time{}, []string{}, []string{}
				for k := range 5 {
					ids = append(ids, fmt.Sprintf("%dA", (n*(7*w+1)+k*11)%40))
					at, catalogs, prices = append(at, time.Date(2024, 1, 1, 0, n%7, 0, 0, time.UTC)), append(catalogs, "c"), append(prices, fmt.Sprint(n%100))
				}
				if _, err := c.Exec(t.Context(), "SELECT pricing.publish_tariffs($1, $2, $3, $4, $5::text[]::numeric[])", fmt.Sprint(n), at, catalogs, ids, prices); err != nil {
					return fmt.Errorf("publish: %w", err)
				}
				if _, err := c.Exec(t.Context(), "SELECT pricing.recompute('c', to_jsonb($1::text[]))", ids); err != nil {
					return fmt.Errorf("recompute: %w", err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := mismatches(t, conn); n != 0 {
		t.Errorf("%d mismatches", n)
	}
	db.NoServerErrors(t)
}
