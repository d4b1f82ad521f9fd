package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"notifyworker/internal/queue"
)

const (
	maxResult = 1 << 20 // bytes of a result; it is read and rewritten with its row
	maxError  = 8000    // bytes of an error text
	maxLogged = 300     // of which go into the log
)

var errNoReason = errors.New("the handler gave no reason")

// The outcomes of a conclusion in logs and metrics, besides those that Kind and queue.Returned name.
const (
	outcomeLost      = "lost"      // somebody else has the job: nothing was written
	outcomeUnwritten = "unwritten" // the database did not answer until the lease was over: a rescue will find the job
)

func outcomeOf(k queue.Kind) string { return k.String() }

// checked makes an outcome one that the database will take.
func checked(out queue.Outcome) queue.Outcome {
	if out.Kind.String() == "unknown" {
		return queue.Outcome{Kind: queue.Failed, Err: fmt.Errorf("the handler returned an unknown kind of outcome: %d", int(out.Kind))}
	}
	success := out.Kind == queue.Completed || out.Kind == queue.CompletedWithErrors
	if err := checkResult(out.Result); err != nil {
		out.Result = nil
		if success {
			out = queue.Outcome{Kind: queue.Failed, Err: fmt.Errorf("the work was done, but its result can't be stored: %w", err)}
		} else {
			out.Err = fmt.Errorf("%w (its result can't be stored: %w)", orElse(out.Err, errNoReason), err)
		}
		success = false
	}
	if !success {
		out.Err = errors.New(bounded(orElse(out.Err, errNoReason).Error(), maxError))
	}
	out.Delay = max(out.Delay, 0)
	return out
}

// checkResult says what is wrong with a result. No result is none.
func checkResult(result json.RawMessage) error {
	switch trimmed := bytes.TrimSpace(result); {
	case len(result) == 0:
		return nil
	case len(result) > maxResult:
		return fmt.Errorf("result has %d bytes, the limit is %d", len(result), maxResult)
	case !utf8.Valid(result):
		return errors.New("result is not UTF-8")
	case !json.Valid(result):
		return errors.New("result is not JSON")
	case trimmed[0] != '{':
		return errors.New("result is not a JSON object")
	case escapesNUL(result):
		return errors.New(`result has \u0000 in it, which jsonb can't hold`)
	}
	return nil
}

// escapesNUL looks for \u0000 whose backslash is not itself escaped.
func escapesNUL(b []byte) bool {
	for {
		i := bytes.Index(b, []byte(`\u0000`))
		if i < 0 {
			return false
		}
		n := 0
		for n <= i && b[i-n] == '\\' {
			n++
		}
		if n%2 == 1 {
			return true
		}
		b = b[i+6:]
	}
}

// bounded makes a text of at most n bytes that PostgreSQL takes: UTF-8, without NUL.
func bounded(s string, n int) string {
	if len(s) > n {
		s = s[:n-len("…")]
		for i := 0; i < utf8.UTFMax && len(s) > 0; i++ { // a rune that was cut in two
			if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
				break
			}
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
}
