SELECT d.rank, d.pid = r.pid AS own, r.path, count(*) AS launches FROM dispatches d LEFT JOIN ranges r USING (workload, range_id) GROUP BY ALL ORDER BY ALL
