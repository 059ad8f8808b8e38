SELECT dispatch_id, TCC_HIT_sum, SQ_INSTS_LDS FROM counters ORDER BY ALL
