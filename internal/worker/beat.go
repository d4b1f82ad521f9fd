package worker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"notifyworker/internal/listen"
	"notifyworker/internal/queue"
)

// staleAfter is well below the age at which a worker's row counts for nothing: after such a gap between two beats some
// commits may have passed over our wish to be notified.
const staleAfter = 30 * time.Second

// beatAgain is the pause after a beat that failed.
const beatAgain = time.Second

// register makes this worker known; false when the stop came first.
func (w *Worker) register(stop context.Context) bool {
	var trouble trouble
	for stop.Err() == nil {
		began := time.Now()
		w.stats.turned(Starting)
		ctx, done := context.WithTimeout(stop, statementTimeout)
		err := w.store.Register(ctx, w.cfg.Info)
		done()
		if stop.Err() == nil {
			w.stats.reserving(err)
		}
		if stop.Err() != nil {
			return err == nil
		}
		if trouble.changed(err) {
			w.logTrouble(err, "register the worker")
		}
		if err == nil {
			w.log.Info().Int("slots", w.cfg.Slots).Bool("polling", w.cfg.Polling).Msg("worker started")
			return true
		}
		sleep(stop, trouble.delay(err, began))
	}
	return false
}

// beat tells the others that this worker lives. The store sends the own echo along.
func (w *Worker) beat(ctx context.Context) {
	var trouble trouble
	last, pause := time.Now(), time.Duration(0) // at once: how many there are decides whether this one listens
	for n, at := uint64(1), last; w.untilBeat(ctx, at, pause); n++ {
		at = time.Now()
		running, _ := w.slots.counts()
		// Short: on an idle worker the beat is what finds out that the network has fallen silent.
		sctx, done := context.WithTimeout(ctx, min(w.cfg.BeatEvery, statementTimeout))
		reserve := w.inReserve()
		sign := queue.Sign{Busy: running, Reserve: reserve && w.slots.free() > 0, Nonce: strconv.FormatUint(n, 10), Notice: w.notice()}
		if !reserve {
			sign.EchoChannel = w.cfg.EchoChannel
		}
		fleet, err := w.store.Beat(sctx, sign)
		if errors.Is(err, queue.ErrUnregistered) { // somebody thought us dead
			if err = w.store.Register(sctx, w.cfg.Info); err == nil {
				w.distrust()
				fleet, err = w.store.Beat(sctx, sign)
			}
		}
		done()
		if ctx.Err() != nil {
			return
		}
		changed := trouble.changed(err)
		if changed {
			w.logTrouble(err, "tell the others that this worker lives")
		}
		w.stats.beat(err)
		if err != nil {
			w.untold(sign.Notice)
			pause = min(w.cfg.BeatEvery, beatAgain)
			continue
		}
		// After an outage the listener may have been deaf, too, and be the last to know.
		if changed || at.Sub(last) > max(staleAfter, 3*w.cfg.BeatEvery) {
			w.distrust()
		}
		last, pause = time.Now(), w.cfg.BeatEvery
		w.counted(fleet)
		if len(fleet.Wanting) == 0 { // the last one may have died, or two may have risen at once
			w.nobodySleeps(ctx)
		}
		if w.cfg.Beaten != nil {
			w.cfg.Beaten(at)
		}
	}
}

// distrust makes the loop say again that it wants to be notified, and look, before it sleeps.
func (w *Worker) distrust() {
	if w.cfg.Polling {
		return
	}
	w.rearm.Store(true)
	w.cfg.Bell.Ring(listen.Nudged)
}

// deregister takes this worker off the list; a row that stays is found by its last beat.
func (w *Worker) deregister(end context.Context) {
	if end.Err() != nil {
		return
	}
	ctx, done := context.WithTimeout(end, time.Second)
	defer done()
	if err := w.store.Deregister(ctx); err != nil {
		w.log.Debug().Err(err).Msg("the worker could not be taken off the list")
	}
}
