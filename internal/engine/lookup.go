package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// signature is a shape that a user's SQL function may have.
type signature struct {
	args    string   // as to_regprocedure takes them
	passes  string   // the arguments of the call
	returns []string // types it may return
	set     bool     // it returns a set
}

var (
	articleSignatures = []signature{{args: "text", returns: []string{"text", "varchar", "bpchar"}}}
	listerSignatures  = []signature{{args: "text", passes: "$1", returns: []string{"text", "varchar", "bpchar", "int4", "int8", "uuid"}, set: true}}

	recomputeReturns = []string{"int2", "int4", "int8", "numeric", "jsonb", "json", "void"}
	// Tried in this order. The parameters are recompute_chunk's: $1 tenant, $2 catalog, $3 ids as jsonb, $4 ids as text[].
	recomputeSignatures = []signature{
		{args: "uuid, text, jsonb", passes: "$1, $2, $3", returns: recomputeReturns},
		{args: "text, jsonb", passes: "$2, $3", returns: recomputeReturns},
		{args: "text, text[]", passes: "$2, $4", returns: recomputeReturns},
	}
)

// function is a user's SQL function as the database knows it.
type function struct {
	signature
	name    string // quoted, with its schema
	returns string
}

// lookUp finds a function by name, with its schema or without, in the first of the shapes that it has. The name is only
// ever compared, never pasted into SQL: what is called is what the catalog says.
func lookUp(ctx context.Context, db *pgxpool.Pool, name string, shapes []signature) (function, error) {
	ctx, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	var wrong []string
	for _, s := range shapes {
		f := function{signature: s}
		var kind string
		var set, allowed bool
		err := db.QueryRow(ctx, `
			SELECT format('%I.%I', n.nspname, p.proname), t.typname::text, p.prokind::text, p.proretset, has_function_privilege(p.oid, 'EXECUTE')
			  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_type t ON t.oid = p.prorettype
			 WHERE p.oid = to_regprocedure($1::text || '(' || $2::text || ')')`, name, s.args).Scan(&f.name, &f.returns, &kind, &set, &allowed)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			continue
		case err != nil:
			return function{}, fmt.Errorf("look up %s(%s): %w", name, s.args, err)
		case kind != "f" || set != s.set || !slices.Contains(s.returns, f.returns):
			what := f.returns
			if set {
				what = "a set of " + what
			}
			wrong = append(wrong, fmt.Sprintf("%s(%s) returns %s, it must return %s", name, s.args, what, s.wanted()))
			continue
		case !allowed:
			return function{}, fmt.Errorf("%s(%s) exists, but this role may not EXECUTE it: grant it", name, s.args)
		}
		return f, nil
	}
	if len(wrong) > 0 {
		return function{}, errors.New(strings.Join(wrong, "; "))
	}
	var tried []string
	for _, s := range shapes {
		tried = append(tried, fmt.Sprintf("%s(%s)", name, s.args))
	}
	return function{}, fmt.Errorf("there is no function %s: create it, or write its name with its schema, quoted where it has capitals",
		strings.Join(tried, " or "))
}

func (s signature) wanted() string {
	list := strings.Join(s.returns, ", ")
	if i := strings.LastIndex(list, ", "); i >= 0 {
		list = list[:i] + " or" + list[i+1:]
	}
	if s.set {
		return "a set of " + list
	}
	return list
}
