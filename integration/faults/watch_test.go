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

// get asks a page of the worker's; ok is false when there was no answer.
func (p *process) get(page string) (status int, body string, ok bool) {
	var url string
	p.log.count(0, func(e entry) bool {
		if says("serving /livez")(e) {
			url = e.text("url")
		}
		return false
	})
	if url == "" || p.gone() {
		return 0, "", false
	}
	client := http.Client{Timeout: 5 * time.Second}
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
	for time.Since(began) < slack*within {
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

// metric is the sum of a metric's samples; 0 when the worker is gone, frozen, or has none.
func (p *process) metric(name string) float64 {
	p.t.Helper()
	_, text, ok := p.get("/metrics")
	if !ok {
		return 0
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
