package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Report is what a run found. Its JSON is meant to be kept and compared.
type Report struct {
	Version      string    `json:"version"`
	Started      time.Time `json:"started"`
	TookSeconds  float64   `json:"tookSeconds"`
	Short        bool      `json:"short"`
	Rounds       int       `json:"rounds"`
	SliceSeconds float64   `json:"sliceSeconds"`
	Machine      Machine   `json:"machine"`
	Server       Server    `json:"server"`
	Sections     []Section `json:"sections"`
}

// Machine is where notifyworker ran.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Server is the PostgreSQL that was measured.
type Server struct {
	Version  string            `json:"version"`
	Own      bool              `json:"own"` // started for this run, on the same machine
	Settings map[string]string `json:"settings"`
}

// Section is the answer to one question.
type Section struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	About       string   `json:"about"` // what was done, and what the figures mean
	TookSeconds float64  `json:"tookSeconds"`
	Tables      []Table  `json:"tables"`
	Charts      []Chart  `json:"charts,omitempty"`
	Targets     []Target `json:"targets,omitempty"`
	Notes       []string `json:"notes,omitempty"` // what went wrong, or could not be measured
}

// Table has a row a contender.
type Table struct {
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// Column is what a number means.
type Column struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
}

// Row has a number for each column.
type Row struct {
	Name   string   `json:"name"`
	Values []Number `json:"values"`
	Errors int      `json:"errors"`         // what failed while this was measured
	Note   string   `json:"note,omitempty"` // such as that it fell behind
}

// Chart is a picture of some of the numbers.
type Chart struct {
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Log    bool     `json:"log,omitempty"`   // the axis of the numbers is logarithmic
	Lines  bool     `json:"lines,omitempty"` // lines over the labels, instead of bars
	Labels []string `json:"labels"`
	Series []Series `json:"series"`
}

// Series is a line, or the bars of one colour.
type Series struct {
	Name   string   `json:"name"`
	Values []Number `json:"values"`
}

// Target is a number that the project has set itself.
type Target struct {
	What   string `json:"what"`
	AtMost bool   `json:"atMost"` // else at least
	Limit  Number `json:"limit"`
	Unit   string `json:"unit,omitempty"`
	Value  Number `json:"value"`
	Met    bool   `json:"met"`
}

// Number is a measured one; NaN, which JSON shows as null, where nothing was measured.
type Number float64

// MarshalJSON writes four significant digits and more.
func (n Number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(round(f))
}

// UnmarshalJSON reads null as NaN.
func (n *Number) UnmarshalJSON(b []byte) error {
	var f *float64
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*n = Number(math.NaN())
	if f != nil {
		*n = Number(*f)
	}
	return nil
}

// round keeps three digits behind the point, more of what is small.
func round(f float64) float64 {
	scale := 1e3
	if math.Abs(f) < 0.1 {
		scale = 1e6
	}
	return math.Round(f*scale) / scale
}

func (s *Section) atMost(what string, value, limit float64, unit string) {
	s.Targets = append(s.Targets, Target{what, true, Number(limit), unit, Number(value), value <= limit})
}

func (s *Section) atLeast(what string, value, limit float64, unit string) {
	s.Targets = append(s.Targets, Target{what, false, Number(limit), unit, Number(value), value >= limit && !math.IsInf(value, 0)})
}

// row makes one of plain numbers.
func row(name string, values ...float64) Row {
	r := Row{Name: name}
	for _, v := range values {
		r.Values = append(r.Values, Number(v))
	}
	return r
}

// Read reads reports that were written as JSON and makes one of them: the head of the first, and the sections of all.
func Read(from ...io.Reader) (*Report, error) {
	var all *Report
	for i, f := range from {
		d := json.NewDecoder(f)
		d.DisallowUnknownFields()
		r := &Report{}
		if err := d.Decode(r); err != nil {
			return nil, fmt.Errorf("read report %d: %w", i+1, err)
		}
		if all == nil {
			all = r
			continue
		}
		all.TookSeconds += r.TookSeconds
		all.Sections = append(all.Sections, r.Sections...)
	}
	if all == nil {
		return nil, errors.New("there is no report to read")
	}
	return all, nil
}

// Only leaves the sections of these names; none means all.
func (r *Report) Only(names []string) {
	if len(names) > 0 {
		r.Sections = slices.DeleteFunc(r.Sections, func(s Section) bool { return !slices.Contains(names, s.Name) })
	}
}

// WriteJSON writes the report with indentation.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
