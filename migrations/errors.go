package migrations

import (
	"errors"
	"fmt"
)

var (
	// ErrSchemaMissing: nothing is installed under this schema's name.
	ErrSchemaMissing = errors.New("schema is missing")
	// ErrSchemaOlder: the schema lacks migrations that this binary has.
	ErrSchemaOlder = errors.New("schema is older than this binary")
	// ErrSchemaNewer: the schema has migrations that this binary does not know. Up touches nothing then.
	ErrSchemaNewer = errors.New("schema is newer than this binary")
	// ErrDrift: an applied migration's file, or the functions and triggers, are not this binary's.
	ErrDrift = errors.New("schema differs from this binary")
	// ErrBlocked: another session's locks were in the way for longer than Options.Patience.
	ErrBlocked = errors.New("another session holds a lock")
)

// stateError is one of the sentinels above with a text for operators.
type stateError struct {
	kind error
	text string
}

func (e *stateError) Error() string { return e.text }
func (e *stateError) Unwrap() error { return e.kind }

func missing(schema string) error {
	return &stateError{ErrSchemaMissing, fmt.Sprintf(`schema %q is not installed: run "notifyworker migrate"`, schema)}
}

func older(at, needed int) error {
	return &stateError{ErrSchemaOlder, fmt.Sprintf(`schema is at %d, this binary needs %d: run "notifyworker migrate"`, at, needed)}
}

func interrupted(m migration) error {
	return &stateError{ErrSchemaOlder, fmt.Sprintf(`migration %s was interrupted: run "notifyworker migrate" again`, m.name)}
}

func newer(at, known int) error {
	return &stateError{ErrSchemaNewer, fmt.Sprintf("schema is at %d, this binary knows %d: use a newer binary", at, known)}
}

func edited(m migration, name, sum string) error {
	return &stateError{ErrDrift, fmt.Sprintf("migration %d was applied as %s with checksum %.12s, this binary has %s with %.12s: "+
		"applied files are never edited; use the binary that applied it, or put the change into a new migration", m.version, name, sum, m.name, m.sum)}
}

func definitionsDiffer(variant string) error {
	return &stateError{ErrDrift, fmt.Sprintf("functions and triggers (variant %s) are not this binary's: "+
		`run "notifyworker migrate" with the newest binary, and start that one`, variant)}
}
