SELECT rank, host, dispatches FROM ranks ORDER BY rank
