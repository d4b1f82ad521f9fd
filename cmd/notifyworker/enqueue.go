package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

type enqueueCmd struct {
	database
	request
	Catalog      string   `placeholder:"ID" help:"Price refresh: the catalog."`
	Product      []string `placeholder:"ID" sep:"none" help:"Price refresh: a product; may be repeated."`
	ProductsFile string   `placeholder:"FILE" help:"Price refresh: products, one a line; - is standard input."`
	Type         string   `placeholder:"TYPE" help:"Another job: its type."`
	JobConfig    string   `placeholder:"JSON" help:"Another job: its input, a JSON object; @FILE reads it from a file."`
	MaxAttempts  string   `placeholder:"N" help:"Another job: attempts before it counts as failed (default 20)."`
}

func (c *enqueueCmd) Run(e *environment) error {
	if (c.Catalog == "") == (c.Type == "") {
		return usageError{errors.New("enqueue: give --catalog with --product for a price refresh, or --type for another job")}
	}
	if c.Type != "" {
		return c.other(e)
	}
	if c.JobConfig != "" || c.MaxAttempts != "" {
		return usageError{errors.New("enqueue: --job-config and --max-attempts go with --type, not with --catalog")}
	}
	ids, err := c.products(e.stdin)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return usageError{errors.New("enqueue: name the products by --product or --products-file; for a whole catalog use notifyworker refresh --full")}
	}
	return c.enqueue(e, c.request, "enqueue_price_refresh", []any{c.Catalog, ids}, "text", "jsonb")
}

func (c *enqueueCmd) other(e *environment) error {
	if len(c.Product) > 0 || c.ProductsFile != "" {
		return usageError{errors.New("enqueue: --product goes with --catalog, not with --type; give the input by --job-config")}
	}
	text := c.JobConfig
	if name, ok := strings.CutPrefix(text, "@"); ok {
		data, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read the job's input: %w", err)
		}
		text = string(data)
	}
	if text == "" {
		text = "{}"
	}
	text = strings.TrimPrefix(text, "\ufeff")
	if !utf8.ValidString(text) {
		return usageError{errors.New("enqueue: --job-config is not UTF-8")}
	}
	if trimmed := strings.TrimSpace(text); !json.Valid([]byte(trimmed)) || trimmed[0] != '{' {
		return usageError{fmt.Errorf(`enqueue: --job-config is not a JSON object such as {"file": "a.csv"}`)}
	}
	r := &reader{}
	attempts := r.integer("max-attempts", c.MaxAttempts, 0, 1, 1_000_000)
	if err := r.err(); err != nil {
		return usageError{err}
	}
	values, casts := []any{c.Type, json.RawMessage(text)}, []string{"text", "jsonb"}
	if attempts > 0 {
		values, casts = append(values, attempts), append(casts, "max_attempts => integer")
	}
	return c.enqueue(e, c.request, "enqueue_job", values, casts...)
}

// enqueue calls one of the enqueueing functions and prints what it answers. A cast may carry the argument's name.
func (d *database) enqueue(e *environment, q request, function string, values []any, casts ...string) error {
	r := &reader{}
	more, args := q.arguments(r)
	if err := r.err(); err != nil {
		return usageError{err}
	}
	sql := "SELECT job_id, joined FROM %s." + function + "("
	n := len(args)
	for i, cast := range casts {
		name, typ, named := strings.Cut(cast, " => ")
		if !named {
			typ, name = cast, ""
		} else {
			name += " => "
		}
		if i > 0 {
			sql += ", "
		}
		sql += fmt.Sprintf("%s$%d::%s", name, n+i+1, typ)
	}
	for _, v := range values {
		switch v := v.(type) {
		case []string:
			for i, id := range v {
				if err := checkProduct(id); err != nil {
					return usageError{fmt.Errorf("enqueue: product %d %w", i+1, err)}
				}
			}
			text, err := json.Marshal(v)
			if err != nil {
				return fmt.Errorf("write the products: %w", err)
			}
			args = append(args, string(text))
		case json.RawMessage:
			args = append(args, string(v))
		default:
			args = append(args, v)
		}
	}
	ctx, stop := untilSignal(e.ctx)
	defer stop()
	conn, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // the statement was its own transaction
	var id *int64
	var joined bool
	if err := conn.QueryRow(ctx, d.sql(sql+more+")"), args...).Scan(&id, &joined); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	switch {
	case id == nil:
		return errors.New("enqueue: nothing was enqueued: a trigger of yours on jobs has passed over the job")
	case joined:
		fmt.Fprintf(e.stdout, "joined job %d, which was waiting\n", *id)
	default:
		fmt.Fprintf(e.stdout, "created job %d\n", *id)
	}
	return nil
}

// products are those of --product, then those of the file.
func (c *enqueueCmd) products(stdin io.Reader) ([]string, error) {
	ids := c.Product
	if c.ProductsFile == "" {
		return ids, nil
	}
	in := stdin
	if c.ProductsFile != "-" {
		f, err := os.Open(c.ProductsFile)
		if err != nil {
			return nil, fmt.Errorf("read the products: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read from
		in = f
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	n := 0
	for ; lines.Scan(); n++ {
		text := strings.TrimSuffix(lines.Text(), "\r")
		if n == 0 {
			text = strings.TrimPrefix(text, "\ufeff") // editors put it there, and it is no part of an id
		}
		if text == "" {
			continue
		}
		if err := checkProduct(text); err != nil {
			return nil, usageError{fmt.Errorf("enqueue: line %d of %s %w", n+1, c.ProductsFile, err)}
		}
		ids = append(ids, text)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, usageError{fmt.Errorf("enqueue: line %d of %s is longer than 1 MiB: write one product a line", n+1, c.ProductsFile)}
	} else if err != nil {
		return nil, fmt.Errorf("read the products: %w", err)
	}
	return ids, nil
}

// checkProduct refuses what could only become another id than was meant on its way to the table.
func checkProduct(id string) error {
	switch {
	case id == "":
		return errors.New("is empty: give its id")
	case !utf8.ValidString(id):
		return fmt.Errorf("is not UTF-8: %q", shortened(id))
	case strings.ContainsRune(id, 0):
		return fmt.Errorf("has a NUL in it, which no text in PostgreSQL can hold: %q", shortened(id))
	}
	return nil
}

func shortened(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
