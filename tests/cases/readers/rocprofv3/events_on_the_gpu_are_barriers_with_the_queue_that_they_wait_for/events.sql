SELECT event_id, kind, category, name, device_id, stream, start_ns, end_ns, correlation, range_id, graph, graph_node FROM events ORDER BY event_id
