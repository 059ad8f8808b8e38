SELECT dispatch_id, kernel, device_id, start_ns, end_ns, graph, graph_node FROM dispatches ORDER BY dispatch_id
