// Package load plays the API pod: it reads a file of supplier tariffs and publishes it, one transaction an update, each of
// which upserts the tariffs of the sample application and enqueues the products concerned.
//
// It promises that a row which can't be published is reported with its line and reason and never stops the rest, that an
// update is published whole or not at all, and that a lost connection loses nothing: an update whose fate is unknown is
// published again, which changes nothing if it had been published before.
//
// Start reading at loader.go (how a load runs), then reader.go (from bytes to updates) and publish.go (from an update to
// the database).
package load
