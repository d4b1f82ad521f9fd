// Package queue is the jobs table as Go: reserve, conclude, requeue, rescue, purge and statistics.
//
// It promises that a job is concluded at most once by the holder of its lock token, that a return to PENDING goes
// through one door (the SQL function requeue, which merges where a newer job of the catalog waits), and that no statement
// of it waits for a client's open transaction. It logs nothing and starts no goroutine.
//
// The statements that only the worker says are in sql/, one a file; what must hold whoever writes is in triggers/.
// Start reading at job.go (what a job is), then store.go (how the table is asked).
package queue
