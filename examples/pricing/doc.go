// Package pricing is a small real application to try notifyworker on: supplier tariffs come in, sale prices go out.
//
// The application itself is SQL (sql/, in name order); this package only carries it. Its parts that notifyworker is pointed at
// are pricing.recompute (the recomputation), pricing.article_of (which products are variants of one article) and
// pricing.products_of (what a full refresh covers). pricing.publish_tariffs is what an API pod would say.
package pricing
