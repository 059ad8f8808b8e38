"""What a report about workloads holds, collected from the answers of the tools."""
