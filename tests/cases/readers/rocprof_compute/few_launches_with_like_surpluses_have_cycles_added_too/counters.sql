SELECT dispatch_id, duration_ns, GRBM_GUI_ACTIVE FROM counters ORDER BY dispatch_id
