package webcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	maxAnswer      = 1 << 20 // bytes of a body that are read
	maxQuoted      = 300     // bytes of a refusing body that are quoted in an error
	idleConns      = 64      // kept open to the endpoint: as many calls may run at once without dialling anew
	DefaultTimeout = time.Minute
)

// Config is complete when URL is set.
type Config struct {
	URL     string
	Timeout time.Duration // for one call, the answer read; 0 means DefaultTimeout
	Header  http.Header   // added to every request, such as Authorization

	// KeyPrefix stands before every key: so that calls for several databases, which number their jobs alike, are told apart.
	KeyPrefix string
}

// Client calls one endpoint. It is safe for concurrent use.
type Client struct {
	url     string
	shown   string // the URL without what may be secret
	timeout time.Duration
	header  http.Header
	prefix  string
	http    *http.Client
}

// New returns a Client, or all that is wrong with cfg at once. It connects to nothing.
func New(cfg Config) (*Client, error) {
	var errs []error
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil: // the error quotes the URL, and with it what is secret
		errs = append(errs, errors.New("the endpoint's URL can't be parsed: give one like https://host/path"))
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		errs = append(errs, fmt.Errorf("the endpoint's URL has scheme %q and host %q: give one like https://host/path", u.Scheme, u.Host))
	}
	if cfg.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout is %v: it can't be negative", cfg.Timeout))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = idleConns, idleConns
	return &Client{
		url:     cfg.URL,
		shown:   u.Scheme + "://" + u.Host + u.Path,
		timeout: cfg.Timeout,
		header:  cfg.Header.Clone(),
		prefix:  cfg.KeyPrefix,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// URL is the endpoint as it may be shown: without user, password and query.
func (c *Client) URL() string { return c.shown }

// Close ends the connections that are kept open.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Post sends body as JSON and returns the answer's JSON object, nil for an empty answer. Any failure is an *Error. key says
// which calls are the same call: the endpoint sees it as Idempotency-Key, behind the prefix.
func (c *Client) Post(ctx context.Context, key, trace string, body any) (json.RawMessage, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, &Error{Kind: Rejected, Err: fmt.Errorf("write the request: %w", err)}
	}
	ctx, done := context.WithTimeout(ctx, c.timeout)
	defer done()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(data))
	if err != nil {
		return nil, &Error{Kind: Unavailable, Err: fmt.Errorf("make the request to %s: %w", c.shown, bare(err))}
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Idempotency-Key", c.prefix+key)
	req.Header.Set("Traceparent", Traceparent(trace))
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "notifyworker")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 1 { // 101: its body is the connection itself, which knows neither an end nor our time limit
		return nil, c.refused(res, nil)
	}
	if res.StatusCode/100 != 2 {
		quoted, _ := io.ReadAll(io.LimitReader(res.Body, maxQuoted+1)) // it is only quoted: what could be read will do
		return nil, c.refused(res, quoted)
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.failed(ctx, err)
	case len(answer) > maxAnswer:
		return nil, &Error{Kind: BadAnswer, Status: res.StatusCode, Err: fmt.Errorf("%s answered %d with more than %d bytes", c.shown, res.StatusCode, maxAnswer)}
	}
	object, err := Storable(answer)
	if err != nil {
		return nil, &Error{Kind: BadAnswer, Status: res.StatusCode, Err: fmt.Errorf("%s answered %d, but its body %w", c.shown, res.StatusCode, err)}
	}
	return object, nil
}

// failed is the error of a call that got no complete answer.
func (c *Client) failed(ctx context.Context, err error) *Error {
	var timeout interface{ Timeout() bool }
	switch {
	case context.Cause(ctx) == context.DeadlineExceeded:
		return &Error{Kind: TimedOut, Err: fmt.Errorf("%s did not answer within %v: %w", c.shown, c.timeout, context.DeadlineExceeded)}
	case ctx.Err() != nil:
		return &Error{Kind: Unavailable, Err: fmt.Errorf("call %s: %w", c.shown, context.Cause(ctx))}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Kind: TimedOut, Err: fmt.Errorf("call %s: %w", c.shown, bare(err))}
	}
	return &Error{Kind: Unavailable, Err: fmt.Errorf("call %s: %w", c.shown, bare(err))}
}

// bare takes the URL off an error of net/http: it may carry secrets, and the caller names the endpoint anyway.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
