// Package migrations brings a database to the state that this binary needs, and says whether it is there.
//
// Two homes of SQL meet here. History: the numbered files of this folder change stored data or its shape, are applied
// once each, in order, and are never edited after. Definitions: the functions and triggers of package triggers, which are
// re-installed whole whenever one of them has changed.
//
// It promises: any number of processes may migrate at once; a process killed half-way is healed by the next run; waiting
// for a lock never blocks others for long; an edited file, an older and a newer schema are told apart and come with what
// to do. The schema's name is free, and so files write it :"schema" and :'schema' (Render).
//
// A connection of one's own is needed: a transaction pooler does not keep the session's lock.
//
// Start reading at up.go (what a migration does), then check.go (what a worker asks at start). Why there is a runner of
// our own: docs/decisions/0001-migration-runner.md.
package migrations
