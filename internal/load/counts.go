package load

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// Counts is what a load has done so far; every field may be read while it runs.
type Counts struct {
	Bytes    atomic.Int64 // read from the file, packed as it is
	Updates  atomic.Int64 // published
	Rows     atomic.Int64 // in them
	Rejected atomic.Int64 // lines that could not be published
	IDs      atomic.Int64 // product ids enqueued
	Created  atomic.Int64 // jobs created for them
	Joined   atomic.Int64 // requests that joined a waiting job
	Retries  atomic.Int64 // updates tried again
	Line     atomic.Int64 // the last one read; set at the end

	begun, ended atomic.Int64 // Unix nanoseconds, 0 before
}

func (c *Counts) start() { c.begun.Store(time.Now().UnixNano()) }
func (c *Counts) stop()  { c.ended.Store(time.Now().UnixNano()) }

func (c *Counts) published(u Update, done published) {
	c.Updates.Add(1)
	c.Rows.Add(int64(len(u.Rows)))
	c.IDs.Add(int64(done.ids))
	c.Created.Add(int64(done.created))
	c.Joined.Add(int64(done.joined))
}

// Elapsed is how long the load has run; 0 before it began.
func (c *Counts) Elapsed() time.Duration {
	begun, ended := c.begun.Load(), c.ended.Load()
	switch {
	case begun == 0:
		return 0
	case ended == 0:
		return time.Since(time.Unix(0, begun))
	}
	return time.Duration(ended - begun)
}

// Rate is published updates a second.
func (c *Counts) Rate() float64 {
	if s := c.Elapsed().Seconds(); s > 0 {
		return float64(c.Updates.Load()) / s
	}
	return 0
}

// String is a line of progress, for logs without a terminal.
func (c *Counts) String() string {
	return fmt.Sprintf("%d updates, %d rows, %d rejected, %.0f updates/s", c.Updates.Load(), c.Rows.Load(), c.Rejected.Load(), c.Rate())
}

// Summary writes what a load came to.
func (c *Counts) Summary(w io.Writer) {
	fmt.Fprintf(w, "updates published  %d\n", c.Updates.Load())
	fmt.Fprintf(w, "tariffs in them    %d\n", c.Rows.Load())
	fmt.Fprintf(w, "lines rejected     %d\n", c.Rejected.Load())
	fmt.Fprintf(w, "ids enqueued       %d\n", c.IDs.Load())
	fmt.Fprintf(w, "jobs created       %d\n", c.Created.Load())
	fmt.Fprintf(w, "requests joined    %d   (their ids went into a job that was waiting)\n", c.Joined.Load())
	if n := c.Retries.Load(); n > 0 {
		fmt.Fprintf(w, "tried again        %d\n", n)
	}
	fmt.Fprintf(w, "in                 %v, %.0f updates/s\n", c.Elapsed().Round(time.Millisecond), c.Rate())
}
