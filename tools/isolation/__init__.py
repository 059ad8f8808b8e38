"""Work on what a client or a file brings, done in a child process with limits that ends with whoever asked for it."""
