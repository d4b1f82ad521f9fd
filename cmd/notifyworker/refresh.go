package main

import "errors"

type refreshCmd struct {
	database
	request
	Catalog string   `required:"" placeholder:"ID" help:"The catalog."`
	Full    bool     `help:"All of its products."`
	Product []string `placeholder:"ID" sep:"none" help:"One of its products; may be repeated."`
}

func (c *refreshCmd) Run(e *environment) error {
	switch {
	case c.Full == (len(c.Product) > 0):
		return usageError{errors.New("refresh: give either --full for the whole catalog, or --product")}
	case c.Full:
		return c.enqueue(e, c.request, "enqueue_full_refresh", []any{c.Catalog}, "text")
	}
	return c.enqueue(e, c.request, "enqueue_price_refresh", []any{c.Catalog, c.Product}, "text", "jsonb")
}
