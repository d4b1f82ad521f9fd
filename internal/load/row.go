package load

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Row is one line of a tariff file that can be published.
type Row struct {
	PublishedAt time.Time
	CatalogID   string
	ProductID   string
	UnitPrice   string // a decimal number as it was written: a float would not keep it
	UpdateID    string
	Line        int
}

// Reject is a line that can't be published.
type Reject struct {
	Line   int
	Reason string
	Text   string // the line, shortened
}

// maxKey bounds catalog, product and update ids, in bytes: two of them fit into an index entry together.
const maxKey = 1024

// maxDigits bounds a price. PostgreSQL would take 131,072 digits, and no price has more than these.
const maxDigits = 40

// parseRow checks what the database would refuse, and more: so that a bad line costs no round trip and no other line.
func parseRow(publishedAt, updateID, catalogID, productID, unitPrice string) (Row, error) {
	r := Row{UpdateID: updateID, CatalogID: catalogID, ProductID: productID}
	var err error
	for _, f := range []struct{ name, value string }{
		{"update_id", updateID}, {"catalog_id", catalogID}, {"product_id", productID},
	} {
		if err := checkKey(f.name, f.value); err != nil {
			return r, err
		}
	}
	if r.PublishedAt, err = parseTime(strings.TrimSpace(publishedAt)); err != nil {
		return r, err
	}
	if r.UnitPrice, err = parsePrice(strings.TrimSpace(unitPrice)); err != nil {
		return r, err
	}
	return r, nil
}

// checkKey leaves a code as the supplier writes it, spaces included: to trim it would make one product of two.
func checkKey(name, s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return fmt.Errorf("%s is empty", name)
	case len(s) > maxKey:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", name, len(s), maxKey)
	}
	return nil
}

// checkText refuses what a text in PostgreSQL can't hold.
func checkText(line []byte) error {
	if !utf8.Valid(line) {
		return errors.New("the line is not valid UTF-8")
	}
	for _, b := range line {
		if b == 0 {
			return errors.New("the line contains a NUL byte")
		}
	}
	return nil
}

// A time without a zone is UTC.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly,
}

func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, errors.New("published_at is empty")
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
				break
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("published_at %q is not a time such as 2006-01-02T15:04:05Z", shorten(s, 60))
}

func parsePrice(s string) (string, error) {
	if s == "" {
		return "", errors.New("unit_price is empty")
	}
	digits := strings.TrimLeft(s, "+-")
	sign := s[:len(s)-len(digits)]
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(sign) > 1 || whole+fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return "", fmt.Errorf("unit_price %q is not a number such as 12.50", shorten(s, 60))
	}
	if len(digits) > maxDigits {
		return "", fmt.Errorf("unit_price has %d digits, at most %d are allowed", len(digits), maxDigits)
	}
	if sign == "-" {
		if strings.Trim(whole+fraction, "0") != "" {
			return "", fmt.Errorf("unit_price %s is negative", s)
		}
	}
	return digits, nil
}

// shorten cuts s to at most n bytes, between runes.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
