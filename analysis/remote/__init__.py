"""Stores that a team shares: in a bucket or behind a DuckLake catalogue, used through copies on this machine."""
