-- touch: can the table be read at all? It waits while somebody has locked it, as for an ALTER TABLE.
-- locks: jobs (ACCESS SHARE), for a moment
SELECT FROM :"schema".jobs LIMIT 0
