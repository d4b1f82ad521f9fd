// Package faults shows what real faults do to the real program: worker processes that are killed, frozen or told to stop,
// servers that restart, hang, refuse or lose a fail-over, networks that go silent, and clients that idle. It has tests only.
//
// Each test ends in the ledger's verdict: every id whose enqueue was committed has been recomputed, no other id has, and no
// catalog has two waiting jobs. What each fault may cost is a bound in the test, and docs/guarantees.md lists them all.
//
// The short form is part of every test run; `-soak 1h` makes those tests long that get better by it.
//
// Start reading at rig_test.go (a database, its ledger and its workers), then process_test.go (one worker) and kill_test.go.
package faults
