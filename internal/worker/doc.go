// Package worker takes jobs from reserved to concluded.
//
// It promises that each reservation is concluded exactly once (completed, returned through the one door, or found lost, and
// then nothing is written), that a slot is free again whatever a handler does, that a handler whose reservation was lost is
// told so, and that a stop loses nothing: what runs may finish, what is left is given back.
//
// The parts, each a goroutine of Run: the loop reserves for free slots, falls asleep so that no wake-up is lost (loop.go,
// idle.go), and leaves its seat among those who listen when it is full (place.go); a goroutine for each job that runs
// (dispatch.go); the concluder writes what became of them, many at a time when there are many (concluder.go); the heartbeat
// keeps the leases (heartbeat.go); beat and maintenance tell the others that this worker lives and pick up what dead ones left
// (beat.go, maintain.go); two more look for what the loop's looks don't reach (lookback.go). At the end, drain (drain.go).
//
// It knows no SQL: a Store does, which package queue has. Wake-ups come by a listen.Doorbell.
package worker
