SELECT rank, dispatches FROM ranks ORDER BY rank
