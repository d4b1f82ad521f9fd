-- The change from another variant: refused while there is what only that one reads, additions and successors. The tables are
-- locked (see define), so nobody is adding. A call of the old add_price_refresh that waits for these locks may still append an
-- addition when they are gone: it stays until a sweep marks it.
-- locks: nothing more
DO $$
BEGIN
    IF EXISTS (SELECT FROM :"schema".schema_definition d WHERE d.variant <> 'cte')
       AND (EXISTS (SELECT FROM :"schema".job_additions a WHERE a.catalog_id <> '')
            OR EXISTS (SELECT FROM :"schema".jobs j WHERE j.status = 'PENDING' AND j.successor)) THEN
        RAISE EXCEPTION 'the variant can''t become cte while ids wait that have joined a job, which cte never reads: stop enqueueing, let the workers take all that waits until job_additions is empty, and migrate again'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;
