SELECT duration_ns FROM dispatches ORDER BY ALL
