"""Nsight Systems: the SQLite file that it exports."""
