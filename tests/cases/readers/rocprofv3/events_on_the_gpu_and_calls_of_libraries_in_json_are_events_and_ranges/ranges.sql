SELECT name, source FROM ranges ORDER BY ALL
