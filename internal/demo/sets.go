package demo

import (
	"bytes"
	"time"

	"notifyworker/examples/pricing"
)

// set is one of the two that are compared: a queue in a schema of its own, its catalogs, and its workers.
type set struct {
	name    string
	schema  string
	suffix  string // of its catalogs' names
	workers int
	flags   []string // of its workers
}

const pollEvery = time.Second

func sets() []set {
	return []set{
		{name: "woken by NOTIFY", schema: "notifyworker", workers: 2, flags: []string{"--wake=notify"}},
		{
			name: "polling every second", schema: "notifyworker_polling", suffix: " (polled)", workers: 1,
			flags: []string{"--wake=poll", "--poll-interval=" + pollEvery.String()},
		},
	}
}

// sampleCatalogs are those of the sample file, the busiest first.
var sampleCatalogs = []string{"kitchen", "garden", "toys", "lighting", "stationery", "workshop"}

// sample is the sample file with this set's names of the catalogs.
func (s set) sample() []byte {
	file := pricing.SampleTariffs()
	for _, c := range sampleCatalogs {
		file = bytes.ReplaceAll(file, []byte(","+c+","), []byte(","+c+s.suffix+","))
	}
	return file
}
