-- The advisory locks of the protocol: which there are, and for what.
--
-- All are transaction locks in the two-integer key space, class first:
--   1853292545  catalog   shared by who adds to a catalog's PENDING work, tried exclusively by who takes or returns it
--   1853292546  creating  tried by who inserts a catalog's first PENDING job
--   1853292547  barrier   shared by a notifying commit from its deferred trigger to its end; see notify.sql
--   1853292548  admission of the recompute engine; see the engine's files
-- Nobody ever waits for a lock that a client's open transaction may hold: enqueuers wait only for "catalog" held
-- exclusively, which only the short transactions of workers hold.

-- The stripe of a catalog: catalogs share 1,024 of them, so that a transaction that enqueues 100,000 catalogs holds at most
-- 2,048 locks and fits into the lock table of stock settings (max_locks_per_transaction 64 × 100 connections). Two catalogs
-- of one stripe cost each other a needless successor now and then, nothing else.
CREATE OR REPLACE FUNCTION :"schema".catalog_stripe(tenant uuid, catalog text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (hashtextextended(catalog, uuid_hash_extended(tenant, 7420)) & 1023)::integer;
COMMENT ON FUNCTION :"schema".catalog_stripe IS 'Which of the 1,024 lock stripes a tenant''s catalog belongs to.';
