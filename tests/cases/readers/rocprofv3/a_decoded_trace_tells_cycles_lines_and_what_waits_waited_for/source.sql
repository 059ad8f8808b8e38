SELECT source_line, "text" FROM source_lines WHERE source_line BETWEEN 11 AND 13 ORDER BY ALL
