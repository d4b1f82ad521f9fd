-- writable: does the server answer, and would it take what a worker writes?
-- returns: one row: read-only, and why; the tables that this role may not change, '' when it may
-- locks: nothing
SELECT current_setting('transaction_read_only')::boolean OR pg_is_in_recovery(),
       CASE WHEN pg_is_in_recovery() THEN 'it is a standby' ELSE 'default_transaction_read_only is set' END,
       coalesce((SELECT string_agg(c.relname, ', ' ORDER BY c.relname)
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = :'schema' AND c.relname IN ('jobs', 'job_additions', 'refreshes', 'workers')
           AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
                    AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))), '')
