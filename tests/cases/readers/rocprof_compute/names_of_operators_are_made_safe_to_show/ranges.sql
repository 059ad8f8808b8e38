SELECT left(name, 40) AS name, left(path, 40) AS path, length(path) AS characters, call_site, depth FROM ranges ORDER BY range_id
