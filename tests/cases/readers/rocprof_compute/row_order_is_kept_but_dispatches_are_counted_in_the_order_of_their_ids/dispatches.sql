SELECT dispatch_id, ordinal FROM dispatches
