SELECT r.rank, r.path, count(*) AS events, bool_and(e.rank = r.rank) AS of_the_same_rank FROM events e JOIN ranges r USING (workload, range_id) GROUP BY ALL ORDER BY ALL
