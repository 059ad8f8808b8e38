SELECT count(*) AS launches FROM dispatches
