-- What holds for every row of jobs, whoever writes it, psql included.

-- check_product_ids: product ids are a JSON array of strings and numbers.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".check_product_ids(product_ids jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = :"schema", pg_temp AS $$
DECLARE
    bad jsonb;
BEGIN
    IF product_ids IS NULL OR jsonb_typeof(product_ids) <> 'array' THEN
        RAISE EXCEPTION 'product ids are %, not a JSON array', coalesce(jsonb_typeof(product_ids), 'missing')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give an array of strings or numbers, such as ["p1", "p2"]; [] is allowed.';
    END IF;
    IF jsonb_path_exists(product_ids, 'strict $[*] ? (@.type() != "string" && @.type() != "number")') THEN
        bad := jsonb_path_query_first(product_ids, 'strict $[*] ? (@.type() != "string" && @.type() != "number")');
        RAISE EXCEPTION 'a product id is %, not a string or a number: %', jsonb_typeof(bad), left(bad::text, 100)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give an array of strings or numbers, such as ["p1", "p2"].';
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".check_product_ids IS 'Raises 22023 with a hint unless product_ids is a JSON array of strings and numbers.';

-- check_catalog_id: a catalog id is a text of 1 to 1,024 bytes, so that it fits into every index that it is in.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".check_catalog_id(catalog_id text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF catalog_id IS NULL OR catalog_id = '' THEN
        RAISE EXCEPTION 'the catalog id is %', CASE WHEN catalog_id IS NULL THEN 'missing' ELSE 'empty' END
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A PRICE_REFRESH names its catalog: a text of 1 to 1024 bytes.';
    ELSIF octet_length(catalog_id) > 1024 THEN
        RAISE EXCEPTION 'the catalog id has % bytes, at most 1024 are allowed: %…', octet_length(catalog_id), left(catalog_id, 40)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Use a shorter key, or its hash.';
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".check_catalog_id IS 'Raises 22023 with a hint unless catalog_id is a text of 1 to 1,024 bytes.';

-- check_full: "full" in a config is true, false or nothing, and never something that one reader takes for yes and another for no.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".check_full(config jsonb) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF jsonb_typeof(config -> 'full') NOT IN ('boolean', 'null') THEN
        RAISE EXCEPTION 'config.full is a JSON %, not true or false', jsonb_typeof(config -> 'full')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Write "full": true for the whole catalog, else leave it out.';
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".check_full IS 'Raises 22023 with a hint unless config.full is true, false, null or missing.';

-- The triggers' WHEN are as short as can be, and the functions ask the rest: PostgreSQL reads and prepares a WHEN anew for each
-- statement, at a cost that grows with its length, and for nearly all statements it is false.

-- guard_price_refresh: before a PRICE_REFRESH is inserted or becomes PENDING.
-- locks: catalog (shared), creating (tried), else beside (shared; waits only for the instant in which somebody asks for it): so a raw
-- INSERT or UPDATE is in the protocol, and an enqueue that comes later does not wait for it on the unique index. Why "creating" was
-- missed makes no difference: another first job of the stripe is open, or who had it lets go of its row a moment before its advisory
-- locks. Generated columns are still NULL here: the key comes from config.
CREATE OR REPLACE FUNCTION :"schema".guard_price_refresh() RETURNS trigger
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    stripe integer;
BEGIN
    IF TG_OP = 'INSERT' THEN
        -- A successor takes the place of a job that the same transaction has just reserved: its slot is ours, and a lock here
        -- could make two reservations wait for each other.
        IF NEW.successor THEN
            RETURN NEW;
        END IF;
        IF jsonb_typeof(NEW.config -> 'catalogId') <> 'string' THEN
            RAISE EXCEPTION 'config.catalogId is a JSON %, not a string', jsonb_typeof(NEW.config -> 'catalogId')
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Write {"catalogId": "…", "productIds": […]}.';
        END IF;
        PERFORM check_catalog_id(NEW.config ->> 'catalogId');
        PERFORM check_product_ids(NEW.config -> 'productIds');
        PERFORM check_full(NEW.config);
    ELSIF NEW.type <> 'PRICE_REFRESH' OR OLD.status = 'PENDING' THEN
        RETURN NEW;
    END IF;
    IF NEW.status = 'PENDING' THEN
        stripe := catalog_stripe(NEW.tenant_id, NEW.config ->> 'catalogId');
        PERFORM pg_advisory_xact_lock_shared(1853292545, stripe);
        IF NOT pg_try_advisory_xact_lock(1853292546, stripe) THEN
            PERFORM pg_advisory_xact_lock_shared(1853292552, stripe);
        END IF;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION :"schema".guard_price_refresh IS 'Trigger: puts every writer of a PENDING PRICE_REFRESH under the catalog''s lock, and refuses a config without catalog or ids.';

CREATE OR REPLACE TRIGGER jobs_guard_insert BEFORE INSERT ON :"schema".jobs
    FOR EACH ROW WHEN (NEW.type = 'PRICE_REFRESH')
    EXECUTE FUNCTION :"schema".guard_price_refresh();
CREATE OR REPLACE TRIGGER jobs_guard_pending BEFORE UPDATE OF status ON :"schema".jobs
    FOR EACH ROW WHEN (NEW.status = 'PENDING')
    EXECUTE FUNCTION :"schema".guard_price_refresh();

-- freeze_job: inputs don't change once a job is reserved, and a waiting PRICE_REFRESH stays with its catalog, or the
-- additions that joined it would belong to no job. While it waits, its ids may be changed to what could be inserted.
-- locks: nothing
CREATE OR REPLACE FUNCTION :"schema".freeze_job() RETURNS trigger
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF OLD.status <> 'PENDING' AND NEW.config IS DISTINCT FROM OLD.config THEN
        RAISE EXCEPTION 'config of job % is frozen: the job is %', OLD.id, OLD.status
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Enqueue another job, or write into result.';
    END IF;
    IF (OLD.type = 'PRICE_REFRESH' OR NEW.type = 'PRICE_REFRESH')
       AND (NEW.type, NEW.tenant_id) IS DISTINCT FROM (OLD.type, OLD.tenant_id) THEN
        RAISE EXCEPTION 'type and tenant of PRICE_REFRESH job % can''t change', OLD.id
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Cancel it and enqueue another.';
    END IF;
    IF OLD.type = 'PRICE_REFRESH' AND NEW.config -> 'catalogId' IS DISTINCT FROM OLD.config -> 'catalogId' THEN
        RAISE EXCEPTION 'the catalog of PRICE_REFRESH job % can''t change', OLD.id
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Cancel it and enqueue another.';
    END IF;
    IF NEW.type = 'PRICE_REFRESH' AND NEW.status = 'PENDING' AND NEW.config IS DISTINCT FROM OLD.config THEN
        PERFORM check_product_ids(NEW.config -> 'productIds');
        PERFORM check_full(NEW.config);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION :"schema".freeze_job IS 'Trigger: refuses changes of a reserved job''s config, and of a PRICE_REFRESH''s type, tenant or catalog.';

CREATE OR REPLACE TRIGGER jobs_freeze BEFORE UPDATE OF config, type, tenant_id ON :"schema".jobs
    FOR EACH ROW EXECUTE FUNCTION :"schema".freeze_job();
