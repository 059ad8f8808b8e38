SELECT dispatch_id, SQ_INSTS_VALU FROM counters ORDER BY dispatch_id
