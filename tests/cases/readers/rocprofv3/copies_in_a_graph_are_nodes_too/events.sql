SELECT kind, direction, bytes, graph, graph_node, range_id FROM events WHERE kind = 'copy'
