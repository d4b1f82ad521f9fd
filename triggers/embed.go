// Package triggers holds the definitions that are installed whole at every migrate, in name order: functions and triggers,
// one idea a file. What they change must hold whoever writes, or needs fresh snapshots within one call.
//
// cte/ holds the first generation's protocol, installed over the default when a schema is migrated with the variant cte.
package triggers

import "embed"

// Files are the definitions; the names end in .sql.
//
//go:embed *.sql cte/*.sql
var Files embed.FS
