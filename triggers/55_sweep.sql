-- sweep: looks for additions without a waiting job, which only a hand that deletes or ends a PENDING job can cause, and
-- marks them, so that the next reservation makes a job of them. One statement sees one snapshot, in which an unmarked
-- addition always has its PENDING job: what is found is broken, not under way.
-- returns: how many additions were repaired; it should be 0 for ever
-- locks: the additions repaired, passing over locked ones; as settle_merges
CREATE OR REPLACE FUNCTION :"schema".sweep() RETURNS bigint
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_seqscan = off AS $$
DECLARE
    n bigint;
BEGIN
    PERFORM settle_merges();
    UPDATE job_additions a SET marked = true
      FROM (SELECT x.tenant_id, x.catalog_id, x.id FROM job_additions x
             WHERE NOT x.marked AND x.catalog_id <> ''
               AND NOT EXISTS (SELECT FROM jobs j WHERE j.tenant_id = x.tenant_id AND j.catalog_id = x.catalog_id
                                                    AND j.status = 'PENDING' AND j.type = 'PRICE_REFRESH')
             LIMIT 10000 FOR UPDATE OF x SKIP LOCKED) s
     WHERE (a.tenant_id, a.catalog_id, a.id) = (s.tenant_id, s.catalog_id, s.id);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
COMMENT ON FUNCTION :"schema".sweep IS 'For workers: repairs additions that belong to no waiting job; returns how many, which should be 0.';

-- settle_merges: jobs whose row was locked when their ids were taken learn now who took them. An addition of no catalog says
-- so: from_job_id has to learn job_id.
-- locks: those additions and the jobs' rows, in id order, passing over locked ones
CREATE OR REPLACE FUNCTION :"schema".settle_merges() RETURNS void
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT a.id, a.from_job_id, a.job_id FROM job_additions a JOIN jobs j ON j.id = a.from_job_id
              WHERE a.tenant_id = '00000000-0000-0000-0000-000000000000' AND a.catalog_id = ''
              ORDER BY j.id, a.id LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED LOOP
        UPDATE jobs j SET result = j.result || jsonb_build_object('mergedIntoJobId', r.job_id) WHERE j.id = r.from_job_id;
        DELETE FROM job_additions a
         WHERE a.tenant_id = '00000000-0000-0000-0000-000000000000' AND a.catalog_id = '' AND a.id = r.id;
    END LOOP;
    DELETE FROM job_additions a
     WHERE a.tenant_id = '00000000-0000-0000-0000-000000000000' AND a.catalog_id = ''
       AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = a.from_job_id); -- purged meanwhile
END $$;
COMMENT ON FUNCTION :"schema".settle_merges IS 'Internal: writes mergedIntoJobId into jobs that somebody had locked when their ids were taken.';
