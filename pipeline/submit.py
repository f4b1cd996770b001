"""The script for spark-submit: an analysis where and how spark-submit says. May be copied anywhere.

`muster` must be importable, from an environment sent with --archives or from muster.zip sent with --py-files.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Python searches beside this file first, and would find modules of this package under names of others
sys.path[:] = [one for one in sys.path if not one or Path(one).resolve() != Path(__file__).resolve().parent]

from muster.pipeline.analyze import main  # noqa: E402  # only now it is clear where modules are found

if __name__ == "__main__":
    raise SystemExit(main())
