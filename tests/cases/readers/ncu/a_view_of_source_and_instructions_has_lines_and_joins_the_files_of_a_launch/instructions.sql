SELECT "offset", source_file, source_line, waits_for, launches FROM instructions ORDER BY ALL
