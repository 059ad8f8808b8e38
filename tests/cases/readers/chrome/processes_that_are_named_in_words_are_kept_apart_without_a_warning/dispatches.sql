SELECT pid FROM dispatches
