SELECT count(DISTINCT event_id) AS numbers FROM events
