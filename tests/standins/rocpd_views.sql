-- The views of schema 3.0.1.
CREATE VIEW processes AS SELECT p.nid, n.machine_id, n.system_name, n.hostname, n.release AS system_release,
  n.version AS system_version, p.guid, p.ppid, p.pid, p.init, p.start, p."end", p.fini, p.command
  FROM rocpd_info_process p JOIN rocpd_info_node n ON n.id = p.nid AND n.guid = p.guid;
CREATE VIEW kernels AS SELECT k.id, k.guid, t.tid, c.string AS category, r.string AS region, s.display_name AS name,
  k.nid, p.pid, a.absolute_index AS agent_abs_index, a.logical_index AS agent_log_index,
  a.type_index AS agent_type_index, a.type AS agent_type, s.code_object_id, k.kernel_id, k.dispatch_id, k.stream_id,
  k.queue_id, q.name AS queue, st.name AS stream, k.start, k."end", k."end" - k.start AS duration,
  k.grid_size_x AS grid_x, k.grid_size_y AS grid_y, k.grid_size_z AS grid_z, k.workgroup_size_x AS workgroup_x,
  k.workgroup_size_y AS workgroup_y, k.workgroup_size_z AS workgroup_z, k.group_segment_size AS lds_size,
  k.private_segment_size AS scratch_size, s.arch_vgpr_count AS vgpr_count, s.accum_vgpr_count, s.sgpr_count,
  s.group_segment_size AS static_lds_size, s.private_segment_size AS static_scratch_size, e.stack_id,
  e.parent_stack_id, e.correlation_id AS corr_id
  FROM rocpd_kernel_dispatch k JOIN rocpd_info_agent a ON a.id = k.agent_id JOIN rocpd_event e ON e.id = k.event_id
  JOIN rocpd_string r ON r.id = k.region_name_id JOIN rocpd_info_kernel_symbol s ON s.id = k.kernel_id
  LEFT JOIN rocpd_string c ON c.id = e.category_id LEFT JOIN rocpd_info_stream st ON st.id = k.stream_id
  LEFT JOIN rocpd_info_queue q ON q.id = k.queue_id JOIN rocpd_info_process p ON p.id = k.pid
  JOIN rocpd_info_thread t ON t.id = k.tid;
CREATE VIEW counters_collection AS SELECT MIN(v.id) AS id, v.guid, k.dispatch_id, k.kernel_id, e.id AS event_id,
  e.correlation_id, e.stack_id, e.parent_stack_id, p.pid, t.tid, k.agent_id, a.absolute_index AS agent_abs_index,
  a.logical_index AS agent_log_index, a.type_index AS agent_type_index, a.type AS agent_type, k.queue_id,
  k.grid_size_x, k.grid_size_y, k.grid_size_z, k.grid_size_x * k.grid_size_y * k.grid_size_z AS grid_size,
  s.display_name AS kernel_name, r.string AS kernel_region, k.workgroup_size_x, k.workgroup_size_y,
  k.workgroup_size_z, k.workgroup_size_x * k.workgroup_size_y * k.workgroup_size_z AS workgroup_size,
  k.group_segment_size AS lds_block_size, k.private_segment_size AS scratch_size, s.arch_vgpr_count AS vgpr_count,
  s.accum_vgpr_count, s.sgpr_count, i.name AS counter_name, i.symbol AS counter_symbol, i.component, i.description,
  i.block, i.expression, i.value_type, i.id AS counter_id, SUM(v.value) AS value, k.start, k."end", i.is_constant,
  i.is_derived, k."end" - k.start AS duration, c.string AS category, k.nid, e.extdata, s.code_object_id
  FROM rocpd_pmc_event v JOIN rocpd_info_pmc i ON i.id = v.pmc_id JOIN rocpd_event e ON e.id = v.event_id
  JOIN rocpd_kernel_dispatch k ON k.event_id = v.event_id JOIN rocpd_info_agent a ON a.id = k.agent_id
  JOIN rocpd_info_kernel_symbol s ON s.id = k.kernel_id JOIN rocpd_info_process p ON p.id = k.pid
  JOIN rocpd_info_thread t ON t.id = k.tid LEFT JOIN rocpd_string r ON r.id = k.region_name_id
  LEFT JOIN rocpd_string c ON c.id = e.category_id
  GROUP BY v.guid, k.dispatch_id, i.name, k.agent_id;
