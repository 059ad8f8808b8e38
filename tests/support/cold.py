"""As a program: rooflens, whose server warms up no more than tests need; a second of processor for each."""

import sys

from rooflens.server.cli import main
from rooflens.server.mcp import warm_up

if __name__ == "__main__":
    warm_up.STEPS = warm_up.STEPS[:3]
    sys.exit(main())
