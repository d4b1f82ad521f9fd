-- 0003 seats: what those who listen hold on to. See the functions in seats.sql.
-- locks: none that anybody can wait for, the views are new.

-- Views, since there must be something to LOCK, and nothing to vacuum.
CREATE VIEW :"schema".seat_1 AS SELECT 1 AS seat;
CREATE VIEW :"schema".seat_2 AS SELECT 2 AS seat;
CREATE VIEW :"schema".seat_3 AS SELECT 3 AS seat;
CREATE VIEW :"schema".seat_4 AS SELECT 4 AS seat;
COMMENT ON VIEW :"schema".seat_1 IS 'Only to be locked: one of the four seats of those who listen.';
COMMENT ON VIEW :"schema".seat_2 IS 'Only to be locked: one of the four seats of those who listen.';
COMMENT ON VIEW :"schema".seat_3 IS 'Only to be locked: one of the four seats of those who listen.';
COMMENT ON VIEW :"schema".seat_4 IS 'Only to be locked: one of the four seats of those who listen.';
