"""`python -m muster.coordinator.cli` is the `muster` command."""

import sys

from muster.coordinator.cli import main

if __name__ == "__main__":
    sys.exit(main())
