package bench

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"notifyworker/migrations"
	"notifyworker/triggers"
)

// kind is what a schema of ours has installed.
type kind string

const (
	advisory kind = "advisory" // as it is shipped
	cte      kind = "cte"      // the variant of the first generation
	always   kind = "always"   // advisory, but every commit with a new job notifies
	bare     kind = "bare"     // advisory without its triggers on jobs: nobody is told, nothing is checked
	plain    kind = "plain"    // bare, with a trigger that notifies at each insert, as one writes it first
	floor    kind = "floor"    // no notifyworker at all: one table, one trigger that notifies
)

// A commit that notifies whether anybody wants to know or not.
const alwaysSQL = `CREATE OR REPLACE FUNCTION :"schema".announce_work() RETURNS trigger LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$ BEGIN
IF TG_TABLE_NAME = 'jobs' THEN PERFORM announce(NEW.type, NEW.tenant_id, NEW.catalog_id, NEW.run_after);
ELSE PERFORM announce('PRICE_REFRESH', NEW.tenant_id, NEW.catalog_id, NEW.run_after); END IF;
RETURN NULL; END $$`

const bareSQL = `ALTER TABLE :"schema".jobs DISABLE TRIGGER USER; ALTER TABLE :"schema".job_additions DISABLE TRIGGER USER`

const plainSQL = bareSQL + `;
CREATE FUNCTION :"schema".plain_notify() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify(:'schema', '{}'); RETURN NULL; END $$;
CREATE TRIGGER plain_notify AFTER INSERT ON :"schema".jobs FOR EACH ROW EXECUTE FUNCTION :"schema".plain_notify()`

const floorSQL = `
CREATE TABLE :"schema".jobs (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    status     text NOT NULL DEFAULT 'PENDING',
    config     jsonb NOT NULL DEFAULT '{}',
    lock_token uuid,
    run_after  timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz
);
CREATE INDEX ON :"schema".jobs (run_after, id) WHERE status = 'PENDING';
CREATE FUNCTION :"schema".tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify(:'schema', ''); RETURN NULL; END $$;
CREATE TRIGGER tell AFTER INSERT ON :"schema".jobs FOR EACH ROW EXECUTE FUNCTION :"schema".tell()`

// schema makes a schema of a kind, once, and returns its name. tag tells apart several of one kind.
func (r *run) schema(ctx context.Context, k kind, tag string) (string, error) {
	name := r.place.prefix + "_" + string(k) + tag
	if r.place.made[name] {
		return name, nil
	}
	r.place.made[name] = true // half made is to be dropped, too
	err := r.place.withConn(ctx, func(conn *pgx.Conn) error {
		if k == floor {
			return script(ctx, conn, `CREATE SCHEMA :"schema"; `+floorSQL, name)
		}
		o := migrations.Options{Schema: name, Triggers: triggers.Files}
		if k == cte {
			o.Variant = string(cte)
		}
		if _, err := migrations.Up(ctx, conn, o); err != nil {
			return err
		}
		switch k {
		case always:
			return script(ctx, conn, alwaysSQL, name)
		case bare:
			return script(ctx, conn, bareSQL, name)
		case plain:
			return script(ctx, conn, plainSQL, name)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("make schema %s: %w", name, err)
	}
	return name, nil
}

// clear removes all jobs, or all but a history that was made by seed, so that each turn begins alike: on a seeded schema nothing is
// left of earlier turns, nor of what was deleted of them. No worker may be at it.
func (r *run) clear(ctx context.Context, schema string) error {
	return r.place.withConn(ctx, func(conn *pgx.Conn) error {
		history := r.place.seeded[schema]
		switch {
		case schema == r.place.prefix+"_"+string(floor):
			return script(ctx, conn, `TRUNCATE :"schema".jobs`, schema)
		case history == 0:
			return script(ctx, conn, `TRUNCATE :"schema".jobs, :"schema".job_additions, :"schema".refreshes; DELETE FROM :"schema".workers`, schema)
		}
		err := script(ctx, conn, `SET statement_timeout = 0; TRUNCATE :"schema".job_additions, :"schema".refreshes; DELETE FROM :"schema".workers;
			DELETE FROM :"schema".jobs WHERE id > `+strconv.FormatInt(history, 10), schema)
		if err != nil {
			return err
		}
		return script(ctx, conn, `VACUUM :"schema".jobs`, schema)
	})
}

func script(ctx context.Context, conn *pgx.Conn, sql, schema string) error {
	_, err := conn.PgConn().Exec(ctx, migrations.Render(sql, schema)).ReadAll()
	return err
}
