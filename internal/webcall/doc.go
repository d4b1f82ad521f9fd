// Package webcall posts JSON to an endpoint of the user's and says what the answer means: done, not now, no, or trouble.
//
// The rules are the same for whoever calls: a time limit, a bounded answer, no redirects, an idempotency key, a W3C
// traceparent. Error tells the kinds of failure apart; what to do about each is the caller's to decide. Start at client.go.
package webcall
