SELECT rank, count(*) AS ranges FROM ranges GROUP BY rank ORDER BY rank
