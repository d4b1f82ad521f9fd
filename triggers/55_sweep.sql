-- sweep: looks for additions without a waiting job, which only a hand that deletes or ends a PENDING job can cause, and
-- marks them, so that the next reservation makes a job of them. One statement sees one snapshot, in which an unmarked
-- addition always has its PENDING job: what is found is broken, not under way.
-- returns: how many additions were repaired; it should be 0 for ever
-- locks: the additions repaired, passing over locked ones
CREATE OR REPLACE FUNCTION :"schema".sweep() RETURNS bigint
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    n bigint;
BEGIN
    UPDATE job_additions a SET marked = true
      FROM (SELECT x.tenant_id, x.catalog_id, x.id FROM job_additions x
             WHERE NOT x.marked
               AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = x.tenant_id AND j.catalog_id = x.catalog_id
                                                    AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH')
             LIMIT 10000 FOR UPDATE OF x SKIP LOCKED) s
     WHERE (a.tenant_id, a.catalog_id, a.id) = (s.tenant_id, s.catalog_id, s.id);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
COMMENT ON FUNCTION :"schema".sweep IS 'For workers: repairs additions that belong to no waiting job; returns how many, which should be 0.';
