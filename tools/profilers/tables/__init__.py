"""What all readers share: the contract of a pass, files as tables, the one merge and the checks of what it wrote."""
