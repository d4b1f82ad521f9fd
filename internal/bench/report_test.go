package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

// sample is a report with all that a report can have.
func sample() *Report {
	nan := Number(math.NaN())
	s := Section{
		Name: "latency", Title: "From commit to start", About: "What <it> means.",
		Tables: []Table{{Title: "idle", Columns: []Column{{"p50", "ms"}, {"jobs", ""}}, Rows: []Row{
			row("floor & more", 0.45, 100), {Name: "polling every second", Values: []Number{501.2, nan}, Errors: 3, Note: "fell behind"},
		}}},
		Charts: []Chart{
			{Title: "Bars", Unit: "ms", Log: true, Labels: []string{"floor & more", "polling every second"}, Series: []Series{{"idle", []Number{0.45, 501.2}}, {"200 jobs/s", []Number{nan, 480}}}},
			{Title: "Lines", Unit: "ms", Log: true, Lines: true, Labels: []string{"1", "8", "32"}, Series: []Series{{"p50", []Number{0.6, nan, 2}}}},
			{Title: "Nothing measured", Unit: "ms", Labels: []string{"1"}, Series: []Series{{"p50", []Number{nan}}}},
		},
		Notes: []string{"a worker was <late>"},
	}
	s.atMost("p50 by the floor's", 1.2, 1.25, "×")
	s.atLeast("rate", 9_000, 10_800, "jobs/s")
	s.atLeast("not there", math.NaN(), 1, "")
	return &Report{
		Version: "v1", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Rounds: 3, SliceSeconds: 1, TookSeconds: 61.5,
		Machine: Machine{"linux", "amd64", 2, "go1.26"}, Server: Server{Version: "18.4", Own: true, Settings: map[string]string{"fsync": "on"}}, Sections: []Section{s},
	}
}

func TestJSONKeepsWhatWasMeasured(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	back, err := Read(strings.NewReader(b.String()), strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Sections) != 2 || back.TookSeconds != 123 {
		t.Errorf("two reports make %d sections of %v s", len(back.Sections), back.TookSeconds)
	}
	if _, err := Read(strings.NewReader(`{"speed": 1}`)); err == nil || !strings.Contains(err.Error(), "speed") {
		t.Errorf("what is no report: %v", err)
	}
	rows := back.Sections[0].Tables[0].Rows
	if rows[0].Values[0] != 0.45 || !math.IsNaN(float64(rows[1].Values[1])) || rows[1].Errors != 3 || !back.Sections[0].Targets[0].Met || back.Sections[0].Targets[1].Met || back.Sections[0].Targets[2].Met {
		t.Errorf("got back %+v", back)
	}
	if back.Only(nil); len(back.Sections) != 2 {
		t.Error("all are asked for, and some are gone")
	}
	if back.Only([]string{"drain"}); len(back.Sections) != 0 {
		t.Error("a section is left that was not asked for")
	}
}

func TestTextShowsFiguresErrorsAndVerdicts(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FROM COMMIT TO START", "0.45", "501", "–", "3 errors fell behind", "! a worker was <late>", "≤ 1.25 ×", "1.20 ×", "NOT met", "not measured", "durable", "9000 jobs/s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
}

// Whatever a browser would fetch is an attribute or a style that names an address; the namespaces of SVG are only names.
var fetched = regexp.MustCompile(`(?i)(src|href|srcset|action|data|poster)\s*=|url\(|@import|<script|<link|<iframe|<img|https?://[^"\s]*`)

func TestThePageNeedsNothingElse(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, m := range fetched.FindAllString(text, -1) {
		if m != "http://www.w3.org/2000/svg" && m != "http://www.w3.org/1999/xlink" {
			t.Errorf("the page has %q", m)
		}
	}
	if n := strings.Count(text, "<svg"); n != 3 || strings.Contains(text, "<?xml") {
		t.Errorf("%d pictures, want 3 and no XML declaration", n)
	}
	for _, want := range []string{"What &lt;it&gt; means.", "floor &amp; more", "polling every second", "NOT met", "fell behind", "a worker was &lt;late&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	wellFormed(t, regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)...)
}

func TestThePictureIsOneSVG(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	if strings.Count(b.String(), "<svg") != 1 || !strings.Contains(b.String(), "Bars") || !strings.Contains(b.String(), "Lines") {
		t.Errorf("got %s", b.String())
	}
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Error("what was not measured is drawn")
	}
}

func wellFormed(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		d := xml.NewDecoder(strings.NewReader(text))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("not well-formed: %v", err)
			}
		}
	}
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for n, want := range map[Number]string{0: "0", 0.456: "0.46", 12.34: "12.3", 504.4: "504", 9_999: "9999", 12_345: "12,345", 1_234_567: "1,234,567", Number(math.NaN()): "–", -12_345: "-12,345"} {
		if got := n.String(); got != want {
			t.Errorf("%v is written %q, want %q", float64(n), got, want)
		}
	}
}
