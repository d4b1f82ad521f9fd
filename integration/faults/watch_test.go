package faults

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// url is where the worker serves its pages; empty when it does not yet, or has ended.
func (p *process) url() (url string) {
	p.log.count(0, func(e entry) bool {
		if says("serving /livez")(e) {
			url = e.text("url")
		}
		return false
	})
	if p.gone() {
		return ""
	}
	return url
}

// get asks a page of the worker's; ok is false when there was no answer.
func (p *process) get(page string) (status int, body string, ok bool) {
	url := p.url()
	if url == "" {
		return 0, "", false
	}
	client := http.Client{Timeout: 30 * time.Second}
	res, err := client.Get(url + page)
	if err != nil {
		return 0, "", false
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err == nil
}

// notReady waits until /readyz says no, with this in its reasons, and returns how long that took.
func (p *process) notReady(within time.Duration, reason string) time.Duration {
	p.t.Helper()
	return p.readiness(within, func(status int, text string) bool {
		return status == http.StatusServiceUnavailable && strings.Contains(text, reason)
	}, "that it is not ready: "+reason)
}

// isReady waits until /readyz says yes.
func (p *process) isReady(within time.Duration) time.Duration {
	p.t.Helper()
	return p.readiness(within, func(status int, _ string) bool { return status == http.StatusOK }, "that it is ready")
}

func (p *process) readiness(within time.Duration, like func(int, string) bool, what string) time.Duration {
	p.t.Helper()
	began := time.Now()
	var last string
	for time.Since(began) < patient(within) {
		status, text, ok := p.get("/readyz")
		if ok && like(status, text) {
			return time.Since(began)
		}
		last = fmt.Sprintf("%d %s", status, text)
		time.Sleep(20 * time.Millisecond) // it has no event for it
	}
	p.t.Fatalf("%s does not say within %v %s; it says: %s", p.name, within, what, last)
	return 0
}

// shows waits until a metric has a value: what is asked of the database is asked anew only after some seconds.
func (p *process) shows(name string, want float64) {
	p.t.Helper()
	var got float64
	for began := time.Now(); time.Since(began) < patient(10*time.Second); time.Sleep(20 * time.Millisecond) {
		if got = p.metric(name); got == want {
			return
		}
	}
	p.t.Errorf("%s: %s is %v, want %v", p.name, name, got, want)
}

// metric is the sum of a metric's samples; 0 when the worker is gone, does not serve yet, or has none.
func (p *process) metric(name string) float64 {
	p.t.Helper()
	var text string
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		status, body, ok := p.get("/metrics")
		if ok && status == http.StatusOK {
			text = body
			break
		}
		if p.url() == "" {
			return 0
		}
		if time.Since(began) > patient(30*time.Second) {
			p.t.Fatalf("%s does not show its metrics; it says: %d %s", p.name, status, body)
		}
	}
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		series, value, found := strings.Cut(lines.Text(), " ")
		if bare, _, _ := strings.Cut(series, "{"); !found || bare != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			p.t.Fatalf("metric %s: %v", name, err)
		}
		sum += v
	}
	return sum
}
