package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed report.html
var page string

// WriteHTML writes the report as one page that needs nothing else: no script, no font, no network.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"svg": inlineSVG,
		"seconds": func(s float64) time.Duration {
			return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond)
		},
		"durability": Server.durability,
		"number":     Number.with,
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	if err := t.Execute(w, r); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// inlineSVG draws a chart for the inside of a page: without the XML declaration.
func inlineSVG(c Chart) (template.HTML, error) {
	var b strings.Builder
	if err := writeSVG(&b, []Chart{c}); err != nil {
		return "", err
	}
	text := b.String()
	if i := strings.Index(text, "<svg"); i > 0 {
		text = text[i:]
	}
	return template.HTML(text), nil //nolint:gosec // drawn by us; the library escapes its texts
}
