SELECT bytes FROM events WHERE kind = 'copy' ORDER BY ALL
