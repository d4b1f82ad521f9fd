package load

import (
	"errors"
	"strings"
)

var (
	errOpenQuote  = errors.New("a quoted field does not end on its line")
	errBareQuote  = errors.New(`a quote stands inside a field that is not quoted: write "…""…"`)
	errAfterQuote = errors.New("something stands between the end of a quoted field and the next comma")
)

// splitFields cuts a CSV line. Unlike encoding/csv it never reads on into the next line: one stray quote would swallow the
// rest of the file, and no code or price contains a line break.
func splitFields(line string, into []string) ([]string, error) {
	into = into[:0]
	for {
		if !strings.HasPrefix(line, `"`) {
			field, rest, more := strings.Cut(line, ",")
			if strings.Contains(field, `"`) {
				return into, errBareQuote
			}
			into = append(into, field)
			if !more {
				return into, nil
			}
			line = rest
			continue
		}
		var field strings.Builder
		line = line[1:]
		for {
			text, rest, found := strings.Cut(line, `"`)
			if !found {
				return into, errOpenQuote
			}
			field.WriteString(text)
			line = rest
			if !strings.HasPrefix(line, `"`) {
				break
			}
			field.WriteByte('"')
			line = line[1:]
		}
		into = append(into, field.String())
		if line == "" {
			return into, nil
		}
		if line[0] != ',' {
			return into, errAfterQuote
		}
		line = line[1:]
	}
}
