SELECT d.pid, d.device_id, c."smsp__inst_executed.sum" FROM dispatches d JOIN counters c USING (workload, dispatch_id) WHERE c."smsp__inst_executed.sum" IS NOT NULL ORDER BY ALL
