SELECT name, stack FROM events WHERE stack IS NOT NULL
