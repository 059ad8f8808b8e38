SELECT "offset", instruction, waits_for FROM instructions ORDER BY ALL
