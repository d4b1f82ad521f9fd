package load

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// RejectWriter prints the first rejected lines for people, and writes all of them to a CSV if it has one.
type RejectWriter struct {
	Print io.Writer // where the first ones are told; nil for nowhere
	First int       // how many; 0 means 20
	All   io.Writer // a CSV with the columns line, reason, text; nil for none

	csv  *csv.Writer
	told int
}

// Write takes one rejected line; it is what Config.Rejected wants.
func (w *RejectWriter) Write(r Reject) {
	if w.First == 0 {
		w.First = 20
	}
	if w.All != nil {
		if w.csv == nil {
			w.csv = csv.NewWriter(w.All)
			w.csv.Write([]string{"line", "reason", "text"}) //nolint:errcheck // Close reports it
		}
		w.csv.Write([]string{strconv.Itoa(r.Line), r.Reason, r.Text}) //nolint:errcheck // Close reports it
	}
	if w.Print == nil {
		return
	}
	switch w.told++; {
	case w.told <= w.First:
		fmt.Fprintf(w.Print, "line %d rejected: %s\n", r.Line, r.Reason)
	case w.told == w.First+1:
		fmt.Fprintln(w.Print, "more lines are rejected: they are counted, and --rejects FILE writes them all")
	}
}

// Close writes out what is buffered and returns the first error that there was.
func (w *RejectWriter) Close() error {
	if w.csv == nil {
		return nil
	}
	w.csv.Flush()
	if err := w.csv.Error(); err != nil {
		return fmt.Errorf("write the rejected lines: %w", err)
	}
	return nil
}
