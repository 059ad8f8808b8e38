SELECT e.name, r.name AS within FROM events e JOIN ranges r USING (range_id) ORDER BY e.start_ns
