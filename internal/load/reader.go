package load

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// Update is what one supplier message says: consecutive lines with the same update id.
type Update struct {
	ID   string
	Line int // of its first row
	Rows []Row
}

// maxUpdateRows bounds what one update can make us hold: one with more rows is published in parts.
const maxUpdateRows = 50_000

var columns = []string{"published_at", "update_id", "catalog_id", "product_id", "unit_price"}

// Reader cuts a tariff file into updates. It is not safe for concurrent use.
type Reader struct {
	lines  *lines
	reject func(Reject)
	place  [5]int // where the columns stand, in the order of columns
	width  int
	fields []string
	ahead  *Row // read already, begins the next update
	err    error
}

// NewReader reads the header of a CSV, gzipped or not, and says what is wrong with it. Lines that can't be published go to
// reject; bytes taken from r are added to read.
func NewReader(r io.Reader, read *atomic.Int64, reject func(Reject)) (*Reader, error) {
	l, err := openLines(r, read)
	if err != nil {
		return nil, err
	}
	rd := &Reader{lines: l, reject: reject}
	line, err := l.next()
	if err == io.EOF {
		return nil, fmt.Errorf("the file is empty: its first line must name the columns %s", strings.Join(columns, ","))
	}
	if err == nil {
		err = checkText(line)
	}
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	header, err := splitFields(strings.TrimPrefix(string(line), "\ufeff"), nil)
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	return rd, rd.readHeader(header)
}

// readHeader finds the columns in whatever order they come; others are left alone.
func (r *Reader) readHeader(header []string) error {
	for i := range header {
		header[i] = strings.ToLower(strings.TrimSpace(header[i]))
	}
	r.width = len(header)
	var errs []error
	for i, name := range columns {
		r.place[i] = slices.Index(header, name)
		if r.place[i] < 0 {
			errs = append(errs, fmt.Errorf("column %s is missing", name))
		} else if slices.Contains(header[r.place[i]+1:], name) {
			errs = append(errs, fmt.Errorf("column %s is there twice", name))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("the first line must name the columns %s, in any order: %w", strings.Join(columns, ","), errors.Join(errs...))
	}
	return nil
}

// Next returns the next update, and io.EOF behind the last. Another error means that the rest of the file can't be read;
// what came before it has been returned.
func (r *Reader) Next() (Update, error) {
	var u Update
	for {
		row := r.ahead
		r.ahead = nil
		if row == nil {
			if row = r.row(); row == nil {
				if len(u.Rows) > 0 {
					return u, nil
				}
				return u, r.err
			}
		}
		if len(u.Rows) > 0 && (row.UpdateID != u.ID || len(u.Rows) == maxUpdateRows) {
			r.ahead = row
			return u, nil
		}
		if len(u.Rows) == 0 {
			u.ID, u.Line = row.UpdateID, row.Line
		}
		u.Rows = append(u.Rows, *row)
	}
}

// Line is the number of the line read last.
func (r *Reader) Line() int { return r.lines.no }

// row returns the next row that can be published; nil sets err.
func (r *Reader) row() *Row {
	for r.err == nil {
		line, err := r.lines.next()
		switch {
		case errors.Is(err, errLineTooLong):
			r.refuse(err, string(line))
			continue
		case err == io.EOF:
			r.err = err
			return nil
		case err != nil:
			r.err = fmt.Errorf("read behind line %d: %w", r.lines.no, err)
			return nil
		case len(line) == 0:
			continue
		}
		if err := checkText(line); err != nil {
			r.refuse(err, strings.ReplaceAll(strings.ToValidUTF8(string(line), "\ufffd"), "\x00", "\ufffd"))
			continue
		}
		text := string(line)
		row, err := r.parse(text)
		if err != nil {
			r.refuse(err, text)
			continue
		}
		row.Line = r.lines.no
		return &row
	}
	return nil
}

func (r *Reader) parse(text string) (Row, error) {
	fields, err := splitFields(text, r.fields)
	r.fields = fields
	if err != nil {
		return Row{}, err
	}
	if len(fields) != r.width {
		return Row{}, fmt.Errorf("the line has %d columns, the header has %d", len(fields), r.width)
	}
	p := r.place
	return parseRow(fields[p[0]], fields[p[1]], fields[p[2]], fields[p[3]], fields[p[4]])
}

func (r *Reader) refuse(why error, text string) {
	r.reject(Reject{Line: r.lines.no, Reason: why.Error(), Text: shorten(text, 500)})
}
