"""What a gate found, for a terminal, for a CI's summary and annotations, for programs, and as JUnit XML."""
