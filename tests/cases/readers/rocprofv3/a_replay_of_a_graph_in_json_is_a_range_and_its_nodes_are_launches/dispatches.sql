SELECT dispatch_id, graph, graph_node FROM dispatches ORDER BY dispatch_id
