// Package integration holds what only a real server can show: the lock protocol in every order of its steps, the ledger of a
// random run, and plans on a long history. It has tests only.
//
// Start reading at world_test.go (what must hold, and who says so), then pairs_test.go.
package integration
