SELECT launch, "offset", class, source_line, inlined FROM instructions ORDER BY ALL
