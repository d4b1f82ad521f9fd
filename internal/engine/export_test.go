package engine

import "time"

// SearchesAreSlow makes it take its last search for all ended leases for so slow a one.
func (e *Engine) SearchesAreSlow(took time.Duration) { e.store.endings.Searched(took) }
