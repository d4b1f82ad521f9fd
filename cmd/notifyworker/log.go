package main

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
)

// formatOf is text where somebody reads along: it is made of JSON, at a cost of half as much again as all else that a worker does for a job
// that does nothing.
func formatOf(f *os.File) string {
	if isTerminal(f) {
		return "text"
	}
	return "json"
}

// newLogger writes to w, whose writer cuts passwords out; one entry is one write.
func newLogger(w io.Writer, asJSON bool, level zerolog.Level) zerolog.Logger {
	if !asJSON {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: !isTerminal(os.Stderr) || os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// The only setting that zerolog keeps for the whole process.
func init() { zerolog.TimeFieldFormat = time.RFC3339Nano }
