SELECT grid FROM dispatches ORDER BY ALL
