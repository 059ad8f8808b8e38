SELECT kind, count(*) AS events FROM events GROUP BY kind ORDER BY kind
