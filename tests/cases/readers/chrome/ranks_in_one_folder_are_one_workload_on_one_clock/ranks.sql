SELECT rank, count(*) AS launches FROM dispatches GROUP BY rank ORDER BY rank
