package migrations

// CheckFiles is Check for a history other than this binary's own.
var CheckFiles = check
