-- Roles for notifyworker. Run it once as a superuser (or as a role that may create roles and schemas), in the database that
-- notifyworker is to live in, before the first "notifyworker migrate":
--
--   psql -v schema=notifyworker -f roles.sql "$ADMIN_URL"
--
-- Running it again changes nothing. After "notifyworker migrate", run grants.sql.

-- Makes the schema, its tables and functions: "notifyworker migrate" logs in as this one. It reads and changes everything in the
-- schema, and nothing else in the database.
DO $$ BEGIN CREATE ROLE notifyworker_owner LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
-- Works the jobs: "notifyworker run" logs in as this one. It can't make or change tables and functions.
DO $$ BEGIN CREATE ROLE notifyworker_worker LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
-- Enqueues. Grant it to the login role of your API: GRANT notifyworker_client TO api;
DO $$ BEGIN CREATE ROLE notifyworker_client NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
-- Reads everything in the schema: for people, dashboards, support.
DO $$ BEGIN CREATE ROLE notifyworker_reader NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;

CREATE SCHEMA IF NOT EXISTS :"schema" AUTHORIZATION notifyworker_owner;

-- PostgreSQL lets everybody call a new function. Not those of this owner. (This can't be said of one schema alone.)
ALTER DEFAULT PRIVILEGES FOR ROLE notifyworker_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
-- What later migrations add: for worker and reader at once, for clients when grants.sql names it.
ALTER DEFAULT PRIVILEGES FOR ROLE notifyworker_owner IN SCHEMA :"schema" GRANT EXECUTE ON FUNCTIONS TO notifyworker_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE notifyworker_owner IN SCHEMA :"schema" GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO notifyworker_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE notifyworker_owner IN SCHEMA :"schema" GRANT USAGE ON SEQUENCES TO notifyworker_worker;
ALTER DEFAULT PRIVILEGES FOR ROLE notifyworker_owner IN SCHEMA :"schema" GRANT SELECT ON TABLES TO notifyworker_reader;
