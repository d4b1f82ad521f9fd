package webcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxDepth    = 500    // of arrays and objects in one another: the server's own parser has a stack too
	maxExponent = 16_000 // a numeric has at most 16,383 digits after the point, and 131,072 before it
	maxDigits   = 16_000
)

// Storable returns an answer as a JSON object that a jsonb column takes; nil for an empty answer. Numbers keep their text.
// What jsonb can't hold in a string, \u0000 and half a surrogate pair, becomes U+FFFD: an answer that reports done work is
// not worth doing the work again. The error completes the sentence "its body …".
func Storable(body []byte) (json.RawMessage, error) {
	body = bytes.Trim(body, " \t\r\n")
	switch {
	case len(body) == 0:
		return nil, nil
	case !utf8.Valid(body):
		return nil, errors.New("is not UTF-8")
	case !json.Valid(body):
		return nil, fmt.Errorf("is not JSON%s", quote(body[:min(len(body), 80)]))
	case body[0] != '{':
		return nil, fmt.Errorf("is not a JSON object%s", quote(body[:min(len(body), 80)]))
	}
	out := make([]byte, 0, len(body))
	depth := 0
	for i := 0; i < len(body); {
		switch c := body[i]; {
		case c == '"':
			var n int
			out, n = appendString(out, body[i:])
			i += n
			continue
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return nil, fmt.Errorf("is nested more than %d levels deep", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || c >= '0' && c <= '9':
			n := 1
			for i+n < len(body) && bytes.IndexByte([]byte("0123456789+-.eE"), body[i+n]) >= 0 {
				n++
			}
			if err := checkNumber(body[i : i+n]); err != nil {
				return nil, err
			}
			out = append(out, body[i:i+n]...)
			i += n
			continue
		}
		out = append(out, body[i])
		i++
	}
	return out, nil
}

// appendString copies the valid JSON string that b starts with, mended; n is its length in b.
func appendString(out, b []byte) (_ []byte, n int) {
	out = append(out, '"')
	for n = 1; ; {
		switch {
		case b[n] == '"':
			return append(out, '"'), n + 1
		case b[n] != '\\':
			out = append(out, b[n])
			n++
		case b[n+1] != 'u':
			out = append(out, b[n], b[n+1])
			n += 2
		default:
			r := unit(b[n:])
			if utf16.IsSurrogate(r) && utf16.DecodeRune(r, unit(b[n+6:])) != utf8.RuneError {
				out = append(out, b[n:n+12]...)
				n += 12
				continue
			}
			if r == 0 || utf16.IsSurrogate(r) {
				out = append(out, `\ufffd`...)
			} else {
				out = append(out, b[n:n+6]...)
			}
			n += 6
		}
	}
}

// unit is the UTF-16 unit of the escape that b starts with, 0 when it starts with none.
func unit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	v, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(v)
}

// checkNumber refuses what is out of numeric's range.
func checkNumber(b []byte) error {
	mantissa, exponent := b, []byte("0")
	if i := bytes.IndexAny(b, "eE"); i >= 0 {
		mantissa, exponent = b[:i], b[i+1:]
	}
	e, err := strconv.Atoi(string(exponent))
	if err != nil || e > maxExponent || e < -maxExponent || len(mantissa) > maxDigits {
		return fmt.Errorf("has a number beyond what the database stores: %s…", b[:min(len(b), 40)])
	}
	return nil
}
