SELECT name, pid FROM ranges ORDER BY range_id
