SELECT dispatch_id FROM dispatches
