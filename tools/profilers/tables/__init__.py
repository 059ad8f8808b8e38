"""What all readers share: staged tables of passes, and the one merge."""
