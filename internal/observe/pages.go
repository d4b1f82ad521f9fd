package observe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves the pages.
func (o *Observer) Handler() http.Handler {
	metrics := promhttp.HandlerFor(o.Registry(), promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: gatherErrors{o},
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", o.livez)
	mux.HandleFunc("GET /readyz", o.readyz)
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "notifyworker %s\n\n/livez    does its loop live?\n/readyz   are jobs started at once, and if not, why?\n/metrics  for Prometheus\n", o.cfg.Version)
	})
	return mux
}

// Registry has all metrics of the process, and nothing else.
func (o *Observer) Registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(o, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

type gatherErrors struct{ o *Observer }

func (g gatherErrors) Println(v ...any) {
	g.o.cfg.Log.Error().Str("said", strings.TrimSpace(fmt.Sprintln(v...))).Msg("metrics are incomplete")
}

func (o *Observer) livez(w http.ResponseWriter, r *http.Request) {
	text := o.Dead()
	answer(w, r, text == "", map[string]any{"live": text == "", "reason": text}, func() string {
		if text == "" {
			return "live\n"
		}
		return "not live: " + text + "\n"
	})
}

func (o *Observer) readyz(w http.ResponseWriter, r *http.Request) {
	h := o.Health()
	answer(w, r, h.Ready, h, h.String)
}

func answer(w http.ResponseWriter, r *http.Request, well bool, v any, text func() string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	var body []byte
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		body, _ = json.MarshalIndent(v, "", "  ") // texts and times: it can't fail
		body = append(body, '\n')
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		body = []byte(text())
	}
	if !well {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	w.Write(body) //nolint:errcheck // who asked has gone
}
