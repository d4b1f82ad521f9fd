package embedded

import (
	"slices"
	"strings"
)

// Environ is the environment of a process of notifyworker's that is told by flags what to do: without what would configure it behind
// our back. What the driver reads (PGPASSWORD, PGSERVICE, PGSSLMODE) belongs to a database that was named, as the connection of this
// process has it; on a server of our own it would mislead. It may change environ, and returns what is left of it.
func Environ(environ []string, own bool) []string {
	return slices.DeleteFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "NOTIFYWORKER_") || strings.HasPrefix(v, "DATABASE_URL=") || own && strings.HasPrefix(v, "PG")
	})
}
