"""rocprofv3 (ROCm 6.2 and later): its command lines, and the readers of what it writes."""
