SELECT name, value, device_id FROM events WHERE kind = 'sample'
