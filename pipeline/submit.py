"""The script for spark-submit: it runs an analysis where and how spark-submit says.

The script may be copied to any place. `muster` must be importable, from an environment sent with --archives or from
muster.zip sent with --py-files.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Python first searches for modules beside this file, and would find modules of this package under wrong names
sys.path[:] = [one for one in sys.path if not one or Path(one).resolve() != Path(__file__).resolve().parent]

from muster.pipeline.analyze import main  # noqa: E402  # only now it is clear where modules are found

if __name__ == "__main__":
    raise SystemExit(main())
