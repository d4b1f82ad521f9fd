package load

import (
	"fmt"
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// ShowProgress begins to show how far c is, and returns what ends it, and where other lines can be written meanwhile. size is
// the length of the file in bytes, 0 when it is not known. On a terminal it is a bar, else a line every few seconds.
func ShowProgress(w io.Writer, c *Counts, size int64, terminal bool) (lines io.Writer, stop func()) {
	lines = w
	done, ended := make(chan struct{}), make(chan struct{})
	every := 3 * time.Second
	show := func() { fmt.Fprintln(w, "loading:", c) }
	finish := func() {}
	if terminal {
		every = 100 * time.Millisecond
		p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(40), mpb.WithAutoRefresh())
		lines = p
		bar := p.AddBar(size,
			mpb.PrependDecorators(decor.Name("loading "), decor.Percentage(decor.WCSyncSpace)),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return c.String() })))
		show = func() { bar.SetCurrent(min(c.Bytes.Load(), max(size-1, 0))) }
		finish = func() {
			bar.SetTotal(max(c.Bytes.Load(), 1), true)
			p.Wait()
		}
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show()
			case <-done:
				finish()
				return
			}
		}
	}()
	return lines, func() {
		close(done)
		<-ended
	}
}
