package bench

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth vg.Length = 640
	barWidth  vg.Length = 11
	rim       vg.Length = 90 // title, axis and legend of a chart of bars
	linesHigh vg.Length = 260
)

// palette can be told apart by the colour-blind, too (Okabe and Ito).
var palette = []color.Color{
	color.RGBA{0, 114, 178, 255},
	color.RGBA{230, 159, 0, 255},
	color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255},
	color.RGBA{86, 180, 233, 255},
	color.RGBA{213, 94, 0, 255},
}

// WriteSVG writes all charts of the report into one picture, one below the other.
func (r *Report) WriteSVG(w io.Writer) error {
	var charts []Chart
	for _, s := range r.Sections {
		charts = append(charts, s.Charts...)
	}
	return writeSVG(w, charts)
}

func writeSVG(w io.Writer, charts []Chart) error {
	high := vg.Length(0)
	for _, c := range charts {
		high += c.height()
	}
	canvas := vgsvg.New(plotWidth, max(high, 1))
	top := high
	for _, c := range charts {
		p, err := c.plot()
		if err != nil {
			return fmt.Errorf("draw %q: %w", c.Title, err)
		}
		area := draw.New(canvas)
		area.Max.Y = top
		top -= c.height()
		area.Min.Y = top
		p.Draw(draw.Crop(area, 8, -16, 6, -6))
	}
	var b strings.Builder
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), "font-family:Liberation Sans", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
	return err
}

func (c Chart) height() vg.Length {
	if c.Lines {
		return linesHigh
	}
	return rim + vg.Length(len(c.Labels))*(vg.Length(len(c.Series))*barWidth+6) + vg.Length(len(c.Series))*12
}

func (c Chart) plot() (*plot.Plot, error) {
	p := plot.New()
	sans := func(s *text.Style, size float64) {
		s.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
	}
	sans(&p.Title.TextStyle, 13)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		sans(&a.Label.TextStyle, 10)
		sans(&a.Tick.Label, 9)
	}
	sans(&p.Legend.TextStyle, 9)
	p.Title.Text, p.Title.Padding = c.Title, 6
	p.Legend.Top, p.Legend.Padding = true, 2
	if c.Lines {
		return p, c.lines(p)
	}
	return p, c.bars(p)
}

// bars lie, so that the labels have room; the first label is on top.
func (c Chart) bars(p *plot.Plot) error {
	low := c.lowest()
	labels := make([]string, len(c.Labels))
	for i, l := range c.Labels {
		labels[len(labels)-1-i] = l
	}
	for i, s := range c.Series {
		values := make(plotter.Values, len(s.Values))
		for j, v := range s.Values {
			values[len(values)-1-j] = c.scaled(float64(v), low)
		}
		b, err := plotter.NewBarChart(values, barWidth)
		if err != nil {
			return err
		}
		b.Horizontal, b.Color, b.LineStyle.Width = true, palette[i%len(palette)], 0
		b.Offset = barWidth * vg.Length(float64(len(c.Series)-1)/2-float64(i))
		p.Add(b)
		if len(c.Series) > 1 {
			p.Legend.Add(s.Name, b)
		}
	}
	p.NominalY(labels...)
	p.X.Label.Text = c.axis()
	p.X.Min = 0
	p.X.Max *= 1.05
	if c.Log {
		p.X.Tick.Marker = decades{low}
	}
	// The legend has a place of its own below the title.
	if len(c.Series) > 1 {
		p.Y.Max += 0.6 + float64(len(c.Series))*12/float64(vg.Length(len(c.Series))*barWidth+6)
	}
	return nil
}

func (c Chart) lines(p *plot.Plot) error {
	low := c.lowest()
	for i, s := range c.Series {
		var xy plotter.XYs
		for j, v := range s.Values {
			if !math.IsNaN(float64(v)) {
				xy = append(xy, plotter.XY{X: float64(j), Y: c.scaled(float64(v), low)})
			}
		}
		if len(xy) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(xy)
		if err != nil {
			return err
		}
		line.Color, points.Color = palette[i%len(palette)], palette[i%len(palette)]
		line.Width, points.Shape = vg.Points(1.5), draw.CircleGlyph{}
		p.Add(line, points)
		p.Legend.Add(s.Name, line, points)
	}
	p.NominalX(c.Labels...)
	p.Y.Label.Text = c.axis()
	p.Y.Min = 0
	p.Y.Max = max(p.Y.Max*1.25, 0.1)
	if c.Log {
		p.Y.Tick.Marker = decades{low}
	}
	return nil
}

func (c Chart) axis() string {
	if c.Log {
		return c.Unit + ", logarithmic"
	}
	return c.Unit
}

// lowest is the power of ten at which a logarithmic axis begins.
func (c Chart) lowest() float64 {
	low := math.Inf(1)
	for _, s := range c.Series {
		for _, v := range s.Values {
			if v > 0 {
				low = min(low, float64(v))
			}
		}
	}
	if math.IsInf(low, 1) {
		return 0
	}
	return math.Floor(math.Log10(low) - 0.1)
}

// scaled is the length of a bar: what was not measured has none.
func (c Chart) scaled(v, low float64) float64 {
	switch {
	case math.IsNaN(v) || v < 0 || c.Log && v == 0:
		return 0
	case c.Log:
		return math.Log10(v) - low
	}
	return v
}

// decades are the ticks of a logarithmic axis.
type decades struct{ low float64 }

// Ticks implements plot.Ticker.
func (d decades) Ticks(from, to float64) (ticks []plot.Tick) {
	for at := math.Ceil(from); at <= to+1; at++ {
		for n := 1.0; n < 10; n++ {
			v := at + math.Log10(n)
			if v < from || v > to {
				continue
			}
			label := ""
			if n == 1 {
				label = strconv.FormatFloat(math.Pow(10, at+d.low), 'f', -1, 64)
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}
