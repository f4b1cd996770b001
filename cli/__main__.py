"""Makes `python -m muster.cli` the same as the `muster` command."""

import sys

from muster.cli import main

if __name__ == "__main__":
    sys.exit(main())
