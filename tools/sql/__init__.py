"""SQL of clients: a sandbox and the tables that it shows."""
