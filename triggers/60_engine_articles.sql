-- Articles: which products may not be recomputed at the same time, and what of a catalog is in flight.

-- article_of: the article that a product is a variant of, as far as nobody says better: a code of digits followed by
-- letters is a variant of the digits (85123A and 85123a are 85123); anything else is an article of its own.
-- Written as RETURN: its names are bound now, so that it needs no search_path of its own and can be inlined into the query
-- over 50,000 ids.
CREATE OR REPLACE FUNCTION :"schema".article_of(product_id text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN product_id ~ '^[0-9]+[A-Za-z]+$' THEN rtrim(product_id, 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz')
                ELSE product_id END;
COMMENT ON FUNCTION :"schema".article_of IS 'The article of a product: the digits of a code like 85123A, else the product itself. The engine can be told to use another function.';

-- articles_of: the articles of product ids, each once. $2 another function than article_of: name(text) returning text, NULL
-- meaning "an article of its own".
-- search_path is the session's: the user's function is called as the user's own code would call it. What is ours is written
-- with its schema.
-- locks: what the user's function takes
CREATE OR REPLACE FUNCTION :"schema".articles_of(p_ids jsonb, p_function text DEFAULT NULL) RETURNS text[]
    LANGUAGE plpgsql AS $$
DECLARE
    articles text[];
    name     text;
BEGIN
    IF p_function IS NULL THEN
        SELECT array_agg(d.article) INTO articles
          FROM (SELECT DISTINCT :"schema".article_of(x.id) COLLATE "C" AS article FROM jsonb_array_elements_text(p_ids) x(id)) d;
    ELSE
        SELECT format('%I.%I', n.nspname, p.proname) INTO name
          FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
         WHERE p.oid = to_regprocedure(p_function || '(text)') AND p.prokind = 'f' AND NOT p.proretset;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no article function %(text)', p_function
                USING ERRCODE = 'undefined_function', HINT = 'Create it: it takes a product id as text and returns its article as text; and grant EXECUTE on it.';
        END IF;
        EXECUTE format('SELECT array_agg(d.article) FROM (SELECT DISTINCT coalesce(%s(x.id)::text, x.id) COLLATE "C" AS article'
                       ' FROM jsonb_array_elements_text($1) x(id)) d', name)
           INTO articles USING p_ids;
    END IF;
    RETURN coalesce(articles, '{}');
END $$;
COMMENT ON FUNCTION :"schema".articles_of IS 'Internal: the articles of product ids, by article_of or by the function named.';

-- in_flight: what stands in the way of a refresh of a catalog. To a caller who holds the catalog's admission lock, taken in an
-- earlier statement, "nothing" is the whole truth; to any other it may have changed.
-- returns: full_in_flight or product_in_flight and the refresh, or NULLs
-- locks: nothing
-- Two sets of 50,000 articles meet in a hash join: the planner knows nothing of their size and would try a nested loop, and
-- array overlap (&&) compares each with each.
CREATE OR REPLACE FUNCTION :"schema".in_flight(
    p_tenant uuid, p_catalog text, p_full boolean, p_articles text[], OUT outcome text, OUT refresh_id bigint)
    LANGUAGE plpgsql SET search_path = :"schema", pg_temp SET enable_nestloop = off SET enable_mergejoin = off AS $$
BEGIN
    SELECT CASE r.scope WHEN 'FULL' THEN 'full_in_flight' ELSE 'product_in_flight' END, r.id INTO outcome, refresh_id
      FROM refreshes r
     WHERE r.tenant_id = p_tenant AND r.catalog_id = p_catalog AND r.status = 'ACTIVE' AND (p_full OR r.scope = 'FULL')
     ORDER BY r.scope, r.id LIMIT 1;
    IF NOT FOUND AND NOT p_full THEN
        SELECT 'product_in_flight', busy.id INTO outcome, refresh_id
          FROM (SELECT r.id, unnest(r.article_ids) AS article FROM refreshes r
                 WHERE r.tenant_id = p_tenant AND r.catalog_id = p_catalog AND r.status = 'ACTIVE') busy
          JOIN (SELECT unnest(p_articles) AS article) wanted ON wanted.article = busy.article
         LIMIT 1;
    END IF;
END $$;
COMMENT ON FUNCTION :"schema".in_flight IS 'Internal: the active refresh that excludes another one of these articles, or of the whole catalog.';
