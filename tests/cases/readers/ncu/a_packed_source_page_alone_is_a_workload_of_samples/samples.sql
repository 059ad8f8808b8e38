SELECT "offset", stall_reason, issued, count FROM samples ORDER BY ALL
