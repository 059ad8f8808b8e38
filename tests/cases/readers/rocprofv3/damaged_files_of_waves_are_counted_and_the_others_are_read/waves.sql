SELECT kernel, cu, start_cycle, end_cycle, instructions FROM waves ORDER BY ALL
