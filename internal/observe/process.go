package observe

import (
	"maps"

	"notifyworker/internal/engine"
	"notifyworker/internal/listen"
	"notifyworker/internal/worker"

	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	wakeCauses = []listen.Cause{
		listen.Notified, listen.Due, listen.Poll, listen.Connected, listen.Overdue, listen.Nudged, listen.Unheard,
		listen.Seated, listen.HandedOver, listen.Many,
	}
	returnCauses   = []string{"refused", "failed", "permanent", "released"}
	outcomes       = []string{"completed", "completed_with_errors", "concluded", "requeued", "merged", "dead", "released", "lost", "unwritten"}
	refusalReasons = []string{"product_in_flight", "full_in_flight", "queue_full", "stopped"}
	hearings       = []listen.Hearing{listen.Connecting, listen.Listening, listen.Deaf, listen.Polling, listen.Reserve}
)

// Series that count are there from the start, at 0: so that the first increase is one.
func collectWorker(e emitter, s worker.Stats, types []string) {
	e.gauge("slots", "Jobs that this worker runs at once.", float64(s.Slots))
	e.gauge("slots_busy", "Jobs whose handler runs.", float64(s.Running))
	e.gauge("jobs_unwritten", "Jobs whose outcome is on its way to the table.", float64(s.Unwritten))
	e.gauge("loop_turned_timestamp_seconds", "When the worker's loop last turned.", unix(s.Turned))
	e.gauge("beat_timestamp_seconds", "When this worker last told the others that it lives; 0: not yet.", unix(s.LastBeat))
	e.gauge("reserving_failing", "1 while jobs can't be reserved.", yes(s.Trouble.Err != nil))

	const wakes = "Looks at the table, by what led to them."
	for _, c := range wakeCauses {
		e.counter("wakes_total", wakes, float64(s.Wakes[c]), "cause", c.String())
	}
	e.counter("wakes_total", wakes, float64(s.Freed), "cause", "freed_slot")
	e.counter("wakes_total", wakes, float64(s.LeaseEnds), "cause", "lease")
	e.counter("looks_total", "Looks at the table.", float64(s.Looks))
	e.counter("looks_empty_total", "Looks that found nothing.", float64(s.EmptyLooks))
	const looking = "How long looks at the table took: a reservation, and what found nothing."
	e.histogram("look_seconds", looking, s.LookFull.Count, s.LookFull.Sum, s.LookFull.Cumulative(), "found", "jobs")
	e.histogram("look_seconds", looking, s.LookEmpty.Count, s.LookEmpty.Sum, s.LookEmpty.Cumulative(), "found", "nothing")
	e.counter("jobs_missed_total", "Jobs that only the slow poll found, though they had been due for a second: should stay 0.", float64(s.Missed))
	e.counter("notify_toggles_total", "Changes of the wish to be notified.", float64(s.Toggles))
	e.counter("barriers_failed_total", "Times that a commit under way kept this worker from trusting its sleep.", float64(s.FailedBarriers))

	e.counter("jobs_reserved_total", "Jobs taken.", float64(s.Reserved))
	concluded := map[worker.Conclusion]uint64{}
	for _, t := range types {
		for _, o := range outcomes {
			concluded[worker.Conclusion{Type: t, Outcome: o}] = 0
		}
	}
	maps.Copy(concluded, s.Concluded)
	for c, n := range concluded {
		e.counter("jobs_concluded_total", "What became of the jobs taken, by type and outcome.", float64(n), "type", c.Type, "outcome", c.Outcome)
	}
	for _, cause := range returnCauses {
		e.counter("jobs_returned_total", "Jobs given back, by cause: they wait again, are merged, or dead.", float64(s.Returned[cause]), "cause", cause)
	}
	e.counter("jobs_lost_total", "Jobs whose token was not ours any more: somebody else had them, nothing was written.", float64(total(s, "lost")))
	e.counter("jobs_merged_total", "Jobs given back that joined a newer one of their catalog.", float64(total(s, "merged")))
	e.counter("jobs_taken_over_total", "Jobs that were handed to another worker, which let them lie.", float64(s.TookOver))
	e.counter("jobs_rescued_total", "Jobs of dead workers that this one brought back.", float64(s.Rescued))
	e.counter("additions_repaired_total", "Additions that belonged to no waiting job: should stay 0 for ever.", float64(s.Repaired))

	e.histogram("job_wait_seconds", "From when a job was enqueued or due to its start, by the database's clock.", s.Wait.Count, s.Wait.Sum, s.Wait.Cumulative())
	for jobType, h := range s.Took {
		e.histogram("job_duration_seconds", "From a job's start to its conclusion.", h.Count, h.Sum, h.Cumulative(), "type", jobType)
	}
}

func total(s worker.Stats, outcome string) (n uint64) {
	for c, k := range s.Concluded {
		if c.Outcome == outcome {
			n += k
		}
	}
	return n
}

func collectListener(e emitter, s listen.State) {
	for _, h := range hearings {
		e.gauge("listener_state", "1 for the state that the listener is in.", yes(s.Hearing == h), "state", h.String())
	}
	e.gauge("listener_state_since_timestamp_seconds", "Since when it is.", unix(s.Since))
	e.gauge("poll_interval_seconds", "How often this worker looks unasked at present.", s.PollEvery.Seconds())
	e.counter("listener_connects_total", "Connections on which LISTEN stood: all but the first are reconnects.", float64(s.Connects))
	e.counter("listener_notifications_total", "Notifications heard.", float64(s.Notifications))
	e.counter("listener_malformed_total", "Notifications that could not be read.", float64(s.Malformed))
	e.counter("listener_echoes_total", "Own echoes heard: the connection hears.", float64(s.Echoes))
	e.counter("listener_echoes_overdue_total", "Own echoes that did not come back: the connection was given up.", float64(s.Overdue))
}

func collectEngine(e emitter, s engine.Stats) {
	const refreshes = "Refreshes that this engine holds."
	e.gauge("engine_refreshes", refreshes, float64(s.Running), "state", "running")
	e.gauge("engine_refreshes", refreshes, float64(s.Queued), "state", "queued")
	e.gauge("engine_capacity", "Refreshes that it may hold.", float64(s.Capacity))
	e.counter("engine_accepted_total", "Refreshes accepted.", float64(s.Accepted))
	e.counter("engine_released_total", "Refreshes that have ended.", float64(s.Released))
	e.counter("engine_taken_over_total", "Refreshes taken over from dead workers.", float64(s.TakenOver))
	e.counter("engine_handed_back_total", "Refreshes handed back at a shutdown.", float64(s.HandedBack))
	e.counter("engine_lost_total", "Refreshes that somebody else has taken over.", float64(s.Lost))
	for _, reason := range refusalReasons {
		e.counter("engine_refusals_total", "Refreshes refused, by reason.", float64(s.Refused[reason]), "reason", reason)
	}
	e.counter("engine_calls_total", "Calls of the recomputation: one a chunk, and more where one fails.", float64(s.Calls))
	e.counter("engine_call_failures_total", "Calls of the recomputation that failed.", float64(s.Failures))
	e.counter("engine_recomputed_total", "Prices recomputed, as the recomputation says.", float64(s.Recomputed))
	e.counter("engine_failed_ids_total", "Product ids that went to a dead letter.", float64(s.FailedProducts))
}

func collectPool(e emitter, s *pgxpool.Stat) {
	const connections = "Connections of the pool."
	e.gauge("pool_connections", connections, float64(s.AcquiredConns()), "state", "in_use")
	e.gauge("pool_connections", connections, float64(s.IdleConns()), "state", "idle")
	e.gauge("pool_connections", connections, float64(s.ConstructingConns()), "state", "opening")
	e.gauge("pool_connections_max", "Connections that it may have.", float64(s.MaxConns()))
	e.counter("pool_acquires_total", "Times that a connection was taken.", float64(s.AcquireCount()))
	e.counter("pool_acquires_waited_total", "Of these, times that none was free.", float64(s.EmptyAcquireCount()))
	e.counter("pool_acquires_cancelled_total", "Times that none could be had in time.", float64(s.CanceledAcquireCount()))
	e.counter("pool_acquire_seconds_total", "Time spent on getting connections.", s.AcquireDuration().Seconds())
}
