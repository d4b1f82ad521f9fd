-- Rights on notifyworker's schema. Run it after "notifyworker migrate", as notifyworker_owner or a superuser:
--
--   psql -v schema=notifyworker -f grants.sql "$OWNER_URL"
--
-- Running it again changes nothing; run it after each upgrade. It first takes away what the schema gave to everybody, for the
-- case that it was migrated before the roles existed.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA :"schema" FROM PUBLIC;

GRANT USAGE ON SCHEMA :"schema" TO notifyworker_worker, notifyworker_client, notifyworker_reader;

-- Worker: the rows, all functions; of the bookkeeping and the tenants only to read. (To lock a seat takes UPDATE on its view.)
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA :"schema" TO notifyworker_worker;
REVOKE INSERT, UPDATE, DELETE ON :"schema".tenants, :"schema".schema_version, :"schema".schema_definition, :"schema".schema_object
  FROM notifyworker_worker;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA :"schema" TO notifyworker_worker;
REVOKE USAGE ON SEQUENCE :"schema".no_sleepers FROM notifyworker_worker;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA :"schema" TO notifyworker_worker;

-- Reader.
GRANT SELECT ON ALL TABLES IN SCHEMA :"schema" TO notifyworker_reader;
GRANT EXECUTE ON FUNCTION :"schema".seat_locks TO notifyworker_reader;

-- Client: the enqueue functions, and what they do with the caller's rights. It sees which jobs wait, not what they are about.
GRANT EXECUTE ON FUNCTION :"schema".enqueue_price_refresh, :"schema".enqueue_price_refreshes, :"schema".enqueue_full_refresh,
                          :"schema".enqueue_job
   TO notifyworker_client;
GRANT EXECUTE ON FUNCTION :"schema".add_price_refresh, :"schema".check_request, :"schema".check_catalog_id,
                          :"schema".check_product_ids, :"schema".check_full, :"schema".catalog_stripe,
                          :"schema".job_is_sound, :"schema".addition_is_sound, :"schema".broken_rule
   TO notifyworker_client;
GRANT SELECT (id, tenant_id, type, catalog_id, status) ON :"schema".jobs TO notifyworker_client;
GRANT INSERT (tenant_id, type, operated_by, trace_id, config, attempts, max_attempts, run_after) ON :"schema".jobs TO notifyworker_client;
GRANT INSERT (tenant_id, catalog_id, product_ids, full_refresh, marked, from_job_id, job_id, operated_by, trace_id, attempts,
              max_attempts, run_after) ON :"schema".job_additions TO notifyworker_client;
GRANT USAGE ON SEQUENCE :"schema".jobs_id_seq TO notifyworker_client;
GRANT SELECT (id) ON :"schema".tenants TO notifyworker_client;
-- What the triggers that tell workers needed of the client before they ran with their owner's rights.
REVOKE SELECT (wants_notify, last_beat) ON :"schema".workers FROM notifyworker_client;
REVOKE EXECUTE ON FUNCTION :"schema".announce, :"schema".channel FROM notifyworker_client;
