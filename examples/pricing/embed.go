package pricing

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var files embed.FS

//go:generate sh -c "go run ./gensample > sample-tariffs.csv"

//go:embed sample-tariffs.csv
var sample []byte

// The functions that notifyworker is configured with to work on this application.
const (
	RecomputeFunction = "pricing.recompute"
	ArticleFunction   = "pricing.article_of"
	ProductsFunction  = "pricing.products_of"
)

// installLock keeps two installations of one database apart; the number means nothing.
const installLock = 7421800364

// SampleTariffs is the sample tariff file, a CSV with deliberate flaws.
func SampleTariffs() []byte { return sample }

// Install creates the application in the schema pricing, or brings its functions up to date. Tables and data that exist
// stay as they are, so it can be called at every start, also by several processes at once.
func Install(ctx context.Context, conn *pgx.Conn) error {
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		return fmt.Errorf("list pricing files: %w", err)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("install pricing: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit it does nothing
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(installLock)); err != nil {
		return fmt.Errorf("install pricing: %w", err)
	}
	// IF NOT EXISTS says so in a notice each time, which is no news to anybody.
	if _, err := tx.Exec(ctx, "SET LOCAL client_min_messages = warning"); err != nil {
		return fmt.Errorf("install pricing: %w", err)
	}
	for _, name := range names {
		sql, err := files.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if _, err := tx.Exec(ctx, string(sql), pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("install pricing: %s: %w", name, err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("install pricing: %w", err)
	}
	return nil
}
