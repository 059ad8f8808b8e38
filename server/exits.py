"""The exit statuses of the command line."""

OK, REFUSED, USAGE = 0, 1, 2
"""Done; refused, with advice on stderr; not understood."""
