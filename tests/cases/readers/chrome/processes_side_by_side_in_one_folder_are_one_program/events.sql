SELECT pid, count(*) AS events FROM events GROUP BY pid ORDER BY pid
