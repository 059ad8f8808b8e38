SELECT count(*) AS ranges FROM ranges
