package worker

import "time"

// SetPace changes when a worker goes from idle to busy and back, before it runs.
func (w *Worker) SetPace(busyAfter time.Duration, busyWakes int, calmAfter time.Duration) {
	w.pace = pace{busyAfter, busyWakes, calmAfter}
}

// Roster returns the ids of those who listen, as far as this worker knows.
func (w *Worker) Roster() []string {
	if ids := w.turns.workers.Load(); ids != nil {
		return *ids
	}
	return nil
}
