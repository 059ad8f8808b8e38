SELECT count(*) AS samples FROM events WHERE stack IS NOT NULL
