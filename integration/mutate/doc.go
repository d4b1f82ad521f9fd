// Command mutate removes single lines of the protocol, one at a time, and runs the tests that should notice. A line that
// can go without a failure is one that no test holds: then it exits with 1 and names it.
//
//	make mutate                       all of them, and docs/mutations.md anew
//	make mutate RUN='lease|token'     some of them; the page's other rows stay
//	go run ./integration/mutate       without a page
//	… -left -at 2 -for 8m             those that the page has no outcome of, two at once, none begun after 8 minutes
//
// The sources are not touched: the changed file is laid over them (go test -overlay). NOTIFYWORKER_PG chooses the server.
// Each mutation is in a table, in mutations_*.go.
package main
