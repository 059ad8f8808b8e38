SELECT rank, pid, dispatches FROM ranks ORDER BY rank
