SELECT "offset", class, waits_for, executed FROM instructions ORDER BY ALL
