// Package pgtest gives each test a PostgreSQL database of its own. NOTIFY channels and advisory locks are per database:
// neither a schema of its own nor a transaction that is rolled back would keep tests from waking one another.
//
// DB is migrated, Empty is not, Server is a whole server for tests that restart it or fill its NOTIFY queue. One server a
// test binary is started when the first test asks for it, and ended by its guard when the binary ends, be it by a panic
// or a timeout. Which server:
//
//	NOTIFYWORKER_TEST_DATABASE_URL  a server that runs already; its role must be allowed to make databases
//	NOTIFYWORKER_PG                 auto, npm, system, a major such as 18 or 15, or a folder of binaries
//	DATABASE_URL                    a server that runs already, when neither of the above is set
//
// When there is none, tests fail and say how to get one; they never skip.
package pgtest
