SELECT rank, count(*) AS events FROM events GROUP BY rank ORDER BY rank
