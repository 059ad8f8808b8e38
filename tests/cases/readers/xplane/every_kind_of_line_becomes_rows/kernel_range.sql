SELECT r.name FROM events e JOIN ranges r USING (range_id) WHERE e.name = 'gemm_fusion'
