SELECT name, source, pid, thread FROM ranges
