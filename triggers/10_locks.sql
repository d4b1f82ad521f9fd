-- The advisory locks of the protocol: which there are, and for what.
--
-- All are in the two-integer key space, class first. Transaction locks:
--   1853292545  catalog   shared by who adds to a catalog's PENDING work, tried exclusively by who takes or returns it
--   1853292546  creating  tried by who inserts a catalog's first PENDING job
--   1853292552  beside    shared by a plain write that could not get "creating" and goes on without. Who has got "creating" asks whether
--               it is free: tries it exclusively, and lets it go in the same expression. So only that is no transaction lock
--   1853292547  barrier   shared by a notifying commit from its deferred trigger to its end; see 25_notify.sql
--   1853292553  sleepers  shared by who wishes to be told of jobs, exclusive for who takes the last wish back; see 25_notify.sql
--   1853292548  admission of the recompute engine; see the engine's files
-- Three more are of handing over, see 24_hand_over.sql; workers hold two of them for longer than a transaction:
--   1853292549  hands     held by the session by which a worker takes what it was handed; tried shared by who would hand it something
--   1853292550  handing   tried by who hands a worker something: eight keys, so at most so many at a time
--   taken       held by that session for each job it has taken; tried by who would take the job over. In the space of one bigint, whose
--               key is a hash, see taken_key: two jobs must not share it
-- Nobody ever waits for a lock that a client's open transaction may hold: enqueuers wait only for "catalog" held
-- exclusively, which only the short transactions of workers hold, and a plain write for the instant in which somebody asks for "beside".

-- The stripe of a catalog: catalogs share 1,024 of them, so that a transaction that enqueues 100,000 catalogs holds at most
-- 2,048 locks (one by plain SQL 3,072) and fits into the lock table of stock settings (max_locks_per_transaction 64 × 100 connections). Two catalogs
-- of one stripe cost each other a needless successor now and then, nothing else.
CREATE OR REPLACE FUNCTION :"schema".catalog_stripe(tenant uuid, catalog text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (hashtextextended(catalog, uuid_hash_extended(tenant, 7420)) & 1023)::integer;
COMMENT ON FUNCTION :"schema".catalog_stripe IS 'Which of the 1,024 lock stripes a tenant''s catalog belongs to.';
