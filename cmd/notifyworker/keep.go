package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"notifyworker/internal/observe"
)

// keepAgain is how long a database that can't be worked is left alone while others are.
const keepAgain = 5 * time.Second

// keepAll works all databases side by side, each with a worker of its own, until stop ends and all have drained. A database that
// can't be worked, for whatever reason, keeps the others from nothing and is tried again. Only when there is none left that
// can be worked does keepAll return before the stop, with the reason of each.
func (s workerSettings) keepAll(stop, end context.Context, migrate bool, watches []*observe.Database, log zerolog.Logger) error {
	stop, cancel := context.WithCancelCause(stop)
	defer cancel(nil)
	k := &kept{failed: make([]bool, len(s.shards)), none: func() { cancel(errNoneLeft) }}
	errs := make([]error, len(s.shards))
	var all sync.WaitGroup
	for i, on := range s.shards {
		log := log
		if len(s.shards) > 1 {
			log = log.With().Str("database", on.name).Logger()
		}
		all.Go(func() {
			errs[i] = s.keep(stop, end, on, migrate, watches[i], log, func(failed bool) { k.tell(i, failed) })
			if errs[i] != nil && len(s.shards) > 1 {
				errs[i] = fmt.Errorf("database %s: %w", on.name, errs[i])
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// keep works one database, again and again if need be, until stop ends. It tells when it has failed, and when it works.
func (s workerSettings) keep(stop, end context.Context, on shard, migrate bool, watch *observe.Database, log zerolog.Logger, tell func(failed bool)) error {
	for {
		begun := false
		err := s.ready(stop, on, migrate, watch, log)
		if err == nil {
			err = s.work(stop, end, on, watch, func() { begun = true; tell(false) }, log)
		}
		switch {
		case err == nil, end.Err() != nil:
			return err
		case stop.Err() != nil && (!begun || errors.Is(err, context.Canceled)):
			log.Info().Msg("stopped before it had begun")
			return orNone(stop, err)
		case stop.Err() != nil:
			return err
		}
		watch.Waiting(err)
		if tell(true); stop.Err() == nil {
			log.Error().Err(err).Dur("again_in", keepAgain).Msg("this database can't be worked; the others go on")
		}
		select {
		case <-time.After(keepAgain):
		case <-stop.Done():
			return orNone(stop, err)
		}
	}
}

var errNoneLeft = errors.New("no database can be worked")

// orNone is the reason why a database can't be worked if that is why the process ends, and no error if it was told to.
func orNone(stop context.Context, reason error) error {
	if errors.Is(context.Cause(stop), errNoneLeft) {
		return reason
	}
	return nil
}

// kept knows which databases can't be worked.
type kept struct {
	mu     sync.Mutex
	failed []bool
	none   func() // called when all have failed
}

func (k *kept) tell(i int, failed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed[i] = failed
	for _, f := range k.failed {
		if !f {
			return
		}
	}
	k.none()
}
