SELECT executed, launches FROM instructions ORDER BY ALL
