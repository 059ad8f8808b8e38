SELECT rank, host, count(*) AS events, count(DISTINCT event_id) AS numbers FROM events GROUP BY ALL ORDER BY ALL
