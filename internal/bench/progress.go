package bench

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows how far a run is: a bar on a terminal, elsewhere a line a step.
type progress struct {
	w     io.Writer
	total int
	done  int
	bars  *mpb.Progress // nil where there is no terminal
	bar   *mpb.Bar
	doing atomic.Value // string; the bar reads it in a goroutine of its own
}

func newProgress(w io.Writer, terminal bool, steps int) *progress {
	p := &progress{w: w, total: steps}
	p.doing.Store("")
	if terminal {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(30), mpb.WithAutoRefresh())
		p.bar = p.bars.AddBar(int64(steps),
			mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name("measuring "), decor.Percentage(decor.WCSyncSpace)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.doing.Load().(string) })))
	}
	return p
}

// step says that the last thing is done and what comes now.
func (p *progress) step(doing string) {
	p.doing.Store(doing)
	if p.bar != nil {
		p.bar.SetCurrent(int64(min(p.done, p.total-1)))
	} else {
		fmt.Fprintf(p.w, "%3d of %d: %s\n", p.done+1, p.total, doing)
	}
	p.done++
}

// close takes the bar away.
func (p *progress) close() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}
