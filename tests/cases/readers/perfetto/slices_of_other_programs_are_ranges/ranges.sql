SELECT name, source FROM ranges ORDER BY range_id
