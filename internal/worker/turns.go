package worker

import (
	"hash/fnv"
	"sync/atomic"
	"time"
)

const (
	// Who is not first looks after this time: the first one has reserved the job by then, and one look serves all that was
	// announced meanwhile. It is also what a job waits for longer when the first one died or got busy since its last beat.
	afterFirst = 3 * time.Millisecond
	// lookApart spreads the looks of those who are not first.
	lookApart = 3 * time.Millisecond
)

// turns decides which of the workers that a notification reaches goes at once: if all of them went, each job would cost as
// many reservations as there are idle workers.
type turns struct {
	workers atomic.Pointer[[]string] // ids of those that want to be told, as of the last beat
}

// among sets who takes turns.
func (t *turns) among(ids []string) { t.workers.Store(&ids) }

// count says how many take turns, as far as is known.
func (t *turns) count() int {
	if ids := t.workers.Load(); ids != nil {
		return len(*ids)
	}
	return 0
}

// Turn says how long this worker shall wait before it looks for what was announced under a key: not at all when it is its
// turn, or when it does not know of others. All workers that know of the same others agree on whose turn it is
// (rendezvous hashing: the highest hash of worker and key).
func (w *Worker) Turn(key string) time.Duration {
	ids := w.turns.workers.Load()
	if ids == nil || len(*ids) < 2 {
		return 0
	}
	var first string
	var top uint64
	rank, known := 0, false
	mine := weight(w.cfg.ID, key)
	for _, id := range *ids {
		known = known || id == w.cfg.ID
		h := weight(id, key)
		if h > mine {
			rank++
		}
		if first == "" || h > top {
			first, top = id, h
		}
	}
	if !known || first == w.cfg.ID {
		return 0
	}
	return afterFirst + lookApart*time.Duration(rank-1)/time.Duration(len(*ids))
}

// weight is what a worker bids for a key.
func weight(id, key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	h.Write([]byte{0})
	h.Write([]byte(id))
	// FNV's high bits change little with the last bytes: mix them (the finalizer of MurmurHash3).
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
