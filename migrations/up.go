package migrations

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
)

// DefaultVariant is the variant of the functions that needs no folder of its own.
const DefaultVariant = "advisory"

// minServer is the oldest server_version_num.
const minServer = 150000

// Options of Up. Triggers must be set; every other zero value is a working default.
type Options struct {
	Schema   string // "" means DefaultSchema
	Triggers fs.FS  // functions and triggers: triggers.Files
	// Variant of the functions: DefaultVariant, or a folder of Triggers whose files are run after the others. "" keeps the
	// one that is installed, and means DefaultVariant in a new schema.
	Variant    string
	Migrations fs.FS         // nil means Files
	LockWait   time.Duration // how long a statement may queue for a lock, with others queueing behind it; 0 means 500ms
	Patience   time.Duration // how long to try again when LockWait was not enough; 0 means 5m
	Log        func(string)  // is told what is waited for; nil means nobody
}

func (o Options) withDefaults() (Options, error) {
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if o.Migrations == nil {
		o.Migrations = Files
	}
	if o.LockWait <= 0 {
		// Below deadlock_timeout (1s): a client that waits for us while we wait for it never becomes the victim.
		o.LockWait = 500 * time.Millisecond
	}
	if o.Patience <= 0 {
		o.Patience = 5 * time.Minute
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if o.Triggers == nil {
		return o, fmt.Errorf("migrate: Options.Triggers is not set")
	}
	return o, ValidSchema(o.Schema)
}

// runner is one run of Up: conn has the lock.
type runner struct {
	Options
	conn *pgx.Conn
}

// Up brings a schema to this binary's state and returns the names of the files it ran, none when there was nothing to do.
// Any number of processes may call it at once; each waits for its turn until ctx ends. After an error all that was
// returned as applied stays, and another run goes on from there. It refuses a schema that is newer than this binary
// (ErrSchemaNewer) or was made by files that were edited since (ErrDrift).
func Up(ctx context.Context, conn *pgx.Conn, o Options) (applied []string, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	files, err := readMigrations(o.Migrations)
	if err != nil {
		return nil, err
	}
	if err := fit(ctx, conn); err != nil {
		return nil, err
	}
	err = locked(ctx, conn, o.Schema, o.Log, func() error {
		r := &runner{o, conn}
		applied, err = r.up(ctx, files)
		return err
	})
	if err != nil {
		return applied, fmt.Errorf("migrate schema %q: %w", o.Schema, err)
	}
	return applied, nil
}

// fit asks whether this server can be migrated at all.
func fit(ctx context.Context, conn *pgx.Conn) error {
	var version int
	var full string
	var standby bool
	err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery()").
		Scan(&version, &full, &standby)
	switch {
	case err != nil:
		return fmt.Errorf("migrate: ask the server's version: %w", err)
	case version < minServer:
		return fmt.Errorf("migrate: the server is PostgreSQL %s: %d or newer is needed", full, minServer/10000)
	case standby:
		return fmt.Errorf("migrate: the server is a standby, which takes no changes: connect to the primary")
	}
	return nil
}

func (r *runner) up(ctx context.Context, files []migration) (applied []string, err error) {
	if err := r.bookkeeping(ctx); err != nil {
		return nil, fmt.Errorf("make the bookkeeping tables: %w", err)
	}
	have, err := readState(ctx, r.conn, r.Schema)
	if err != nil {
		return nil, err
	}
	if err := have.refuse(files); err != nil {
		return nil, err
	}
	if r.Variant == "" {
		r.Variant = have.variant
	}
	if r.Variant == "" {
		r.Variant = DefaultVariant
	}
	// Read before anything is done: a variant that is unknown must not leave half a migration.
	defs, err := readDefinitions(r.Triggers, r.Variant)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if row, ok := have.versions[f.version]; ok && row.done {
			continue
		}
		if err := r.apply(ctx, f); err != nil {
			return applied, fmt.Errorf("migration %s: %w", f.name, err)
		}
		applied = append(applied, f.name)
	}
	whole, err := r.definitionsWhole(ctx)
	if err != nil {
		return applied, err
	}
	// After a migration too: it may have made a table anew, and with it gone the triggers.
	if len(applied) == 0 && whole && have.variant == defs.variant && have.definitions == defs.sum {
		return nil, nil
	}
	if err := r.define(ctx, defs); err != nil {
		return applied, fmt.Errorf("functions and triggers: %w", err)
	}
	for _, d := range defs.files {
		applied = append(applied, "triggers/"+d.name)
	}
	return applied, nil
}
