// Package integration holds what only a real server can show: the lock protocol in every order of its steps, the ledger of
// a long random run, and the rule of who may import whom. It has tests only.
//
// Start reading at world_test.go (what must hold, and who says so), then pairs_test.go.
package integration
