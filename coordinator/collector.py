"""Settings of Python's cyclic garbage collector, in a process that serves."""

from __future__ import annotations

import gc
from typing import Final

EVERY_OBJECTS: Final = 20_000
"""Members and connections live long and are in few circles: looking for those after each 700 new objects, as Python
does by default, took a tenth of the time in which a thousand members join."""
MIDDLE_AFTER_RUNS: Final = 1
"""What has outlived one run is looked at once more after so many further ones: at most 60,000 objects in one piece,
some 10 ms. After 10, as Python does by default, they are 240,000, and a large request held the loop for 50 ms."""
ALL_AFTER_RUNS: Final = 50
"""All objects are looked at as seldom as with Python's default: when 3,000,000 were made, and a quarter of all is new.
"""


def begin() -> None:
    """Collect from now on, but never what there is: it was loaded at the start and lives as long as the process."""
    gc.freeze()
    gc.set_threshold(EVERY_OBJECTS, MIDDLE_AFTER_RUNS, ALL_AFTER_RUNS)
    gc.enable()
