SELECT stall_reason, stall_raw, issued, count FROM samples
