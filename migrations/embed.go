package migrations

import "embed"

// Files is the history: numbered files, each applied once.
//
//go:embed *.sql
var Files embed.FS
