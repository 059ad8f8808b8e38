"""``python -m rooflens``: the command line."""

from .server.cli import main

raise SystemExit(main())
