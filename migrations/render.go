package migrations

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultSchema is where notifyworker lives when nothing else is said.
const DefaultSchema = "notifyworker"

// Render puts a schema's name into SQL: :"schema" becomes a quoted identifier, :'schema' a string literal. It is plain
// text replacement, inside function bodies and comments too.
func Render(sql, schema string) string {
	return strings.NewReplacer(`:"schema"`, quoteIdent(schema), `:'schema'`, quoteLiteral(schema)).Replace(sql)
}

func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

func quoteLiteral(s string) string {
	q := `'` + strings.ReplaceAll(s, `'`, `''`) + `'`
	if strings.Contains(s, `\`) {
		q = ` E` + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}

const maxIdent = 63 // bytes; PostgreSQL cuts longer names, with a notice only

// ValidSchema says what is wrong with a schema's name; nil when notifyworker can live there.
func ValidSchema(schema string) error {
	switch {
	case schema == "":
		return errors.New("the schema's name is empty")
	case len(schema) > maxIdent:
		return fmt.Errorf("schema %q has %d bytes: PostgreSQL allows %d", schema, len(schema), maxIdent)
	case !utf8.ValidString(schema) || strings.ContainsRune(schema, 0):
		return fmt.Errorf("schema %q is not UTF-8 text without NUL", schema)
	case strings.HasPrefix(schema, "pg_") || schema == "information_schema":
		return fmt.Errorf("schema %q is PostgreSQL's own: choose another name", schema)
	case strings.ContainsAny(schema, `$'\`):
		// The name is also written inside quoted function bodies and comments, which these would end.
		return fmt.Errorf("schema %q has one of $ ' \\ in its name: choose a name without", schema)
	}
	return nil
}
