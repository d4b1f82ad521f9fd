package worker

import "time"

// SetPace changes when a worker goes from idle to busy and back, before it runs.
func (w *Worker) SetPace(busyAfter time.Duration, busyWakes int, calmAfter time.Duration) {
	w.pace = pace{busyAfter, busyWakes, calmAfter}
}
