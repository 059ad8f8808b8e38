SELECT dispatch_id, kernel, launch, "offset", instruction, source_file, source_line, stall_reason, stall_raw, issued, lanes, count FROM samples ORDER BY ALL
