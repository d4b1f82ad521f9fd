// Package handler works every job type but PRICE_REFRESH without code of the user's in this process: a type is handed to an
// HTTP endpoint (HTTP) or to a SQL function (SQL).
//
// Both may be called more than once for the same job: a worker may die after the work and before its conclusion. They must
// be idempotent; the job's id, which is also the Idempotency-Key, tells that it is the same job.
//
// Both report items that failed in the same way: a result with a non-empty array "errors" ends the job as
// COMPLETED_WITH_ERRORS.
package handler
