SELECT kind, name, pinned FROM events WHERE kind = 'copy'
