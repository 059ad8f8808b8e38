SELECT "offset", issued, stall_reason, count FROM samples ORDER BY ALL
