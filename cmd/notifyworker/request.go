package main

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"time"
)

// request are the flags of everything that enqueues.
type request struct {
	Tenant     *string `placeholder:"UUID" help:"Whose job it is (default: the tenant of zeros)."`
	OperatedBy *string `placeholder:"UUID" help:"Who asks."`
	TraceID    string  `placeholder:"TEXT" help:"Ties the job to the request that asks for it."`
	Delay      string  `placeholder:"DURATION" help:"Not before this time has passed, such as 30s."`
}

var uuidText = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// arguments are the named arguments that all enqueueing functions share, each NULL or the function's own default.
func (q request) arguments(r *reader) (sql string, args []any) {
	delay := r.duration("delay", q.Delay, 0, 0, 10*365*24*time.Hour)
	add := func(name, cast string, value any) {
		args = append(args, value)
		sql += fmt.Sprintf(", %s => $%d::%s", name, len(args), cast)
	}
	for _, u := range []struct {
		flag, name string
		value      *string
	}{{"tenant", "tenant_id", q.Tenant}, {"operated-by", "operated_by", q.OperatedBy}} {
		if u.value == nil {
			continue
		}
		if !uuidText.MatchString(*u.value) { // an empty one is a variable that is not set: not the tenant of zeros
			r.fail(u.flag, "is %q: give a UUID, or leave it out", *u.value)
		}
		add(u.name, "uuid", *u.value)
	}
	if q.TraceID != "" {
		add("trace_id", "text", q.TraceID)
	}
	if delay > 0 {
		add("delay", "interval", delay)
	}
	return sql, args
}

// newUUID is a random one, version 4.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
