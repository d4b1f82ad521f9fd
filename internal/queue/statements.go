package queue

import (
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var files embed.FS

// statements are the texts of sql/, rendered for one schema.
type statements struct {
	reserve, requeue, sweep, barrier string
	nobodySleeps                     string
	complete, held, progress, extend string
	expired                          string

	depth, durations                          string
	purge, purgeRefreshes                     string
	register, beat, wantNotify, deregister    string
	pressure, additions, writable, purgeable  string
	touch, lookBack                           string
	takeLock, takeLook, let, handsKey, hungUp string
	takeOver, takeBack, mine                  string
}

func newStatements(schema string) (statements, error) {
	call := func(function string) string { return render(`SELECT * FROM :"schema".`+function, schema) }
	s := statements{
		reserve: call("reserve($1, $2::text::uuid, $3, $4::text::jsonb, $5, $6, $7, $8)"),
		requeue: call("requeue($1, $2, $3::text::uuid, $4, $5::text::jsonb, $6, $7)"),
		sweep:   call("sweep()"),
		barrier: call("barrier($1)"),

		nobodySleeps: call("nobody_sleeps()"),

		complete: call("complete($1, $2::text[]::uuid[], $3, $4::text[]::jsonb[])"),
		held:     call("held($1, $2::text[]::uuid[])"),
		progress: call("progress($1, $2::text::uuid, $3::text::jsonb)"),
		extend:   call("extend($1, $2::text[]::uuid[], $3)"),
		expired:  call("expired($1, $2, $3)"),
		takeBack: call("take_back($1, $2::text[]::uuid[], $3::text::uuid, $4, $5::text::jsonb)"),
		takeOver: call("take_over($1, $2, $3::text::uuid, $4, $5::text::jsonb, $6)"),
	}
	for name, into := range map[string]*string{
		"depth": &s.depth, "durations": &s.durations, "purge": &s.purge, "purge_refreshes": &s.purgeRefreshes,
		"register": &s.register, "beat": &s.beat, "want_notify": &s.wantNotify, "deregister": &s.deregister,
		"pressure": &s.pressure, "additions": &s.additions, "writable": &s.writable, "purgeable": &s.purgeable,
		"touch": &s.touch, "look_back": &s.lookBack,
		"mine": &s.mine, "take_lock": &s.takeLock, "take_look": &s.takeLook, "let": &s.let, "hands_key": &s.handsKey,
		"hung_up": &s.hungUp,
	} {
		text, err := files.ReadFile("sql/" + name + ".sql")
		if err != nil {
			return statements{}, fmt.Errorf("statement %s: %w", name, err)
		}
		*into = render(string(text), schema)
	}
	return s, nil
}

// render writes the schema into a statement, as psql would with its variables :"schema" and :'schema'.
func render(sql, schema string) string {
	return strings.NewReplacer(
		`:"schema"`, pgx.Identifier{schema}.Sanitize(),
		`:'schema'`, "'"+strings.ReplaceAll(schema, "'", "''")+"'",
	).Replace(sql)
}
