"""Settings of Python's cyclic garbage collector, in a process that serves.

No collection looks at more than some 150,000 objects, however many the process has. When more than a few have outlived
a collection of all, they are frozen. They are not looked at again, and are freed when nothing refers to them. So cycles
of objects are found while these are young, or few. Muster makes no others: a connection, a group or a topic that has
ended leaves no cycle behind (`tests/coordinator/test_no_cycles.py`).
"""

from __future__ import annotations

import gc
import sys
from typing import Any, Final

EVERY_OBJECTS: Final = 20_000
"""Members and connections live long and are in few circles: looking for those after each 700 new objects, as Python
does by default, took a tenth of the time in which a thousand members join."""
MIDDLE_AFTER_RUNS: Final = 1
"""What has outlived one run is looked at once more after so many further ones: at most 60,000 objects in one piece,
some 5 ms. After 10, as Python does by default, they are 240,000, and a large request held the loop for 50 ms."""
ALL_AFTER_RUNS: Final = 0
"""All objects that are not frozen are looked at after one such run, when a quarter of them is new."""
MOST_OBJECTS: Final = 50_000
"""When more have outlived that, they are frozen. Python would look at all of them again and again. With 1 GB of heap
one such look took 400 to 950 ms."""
_ALL: Final = 1 if sys.version_info[:2] == (3, 14) else 2
"""The generation of a collection after which old objects are frozen. The collector of Python 3.14.0 never looks at all
objects by itself."""


def begin() -> None:
    """Collect from now on, but never what there is: it was loaded at the start and lives as long as the process."""
    gc.freeze()
    gc.set_threshold(EVERY_OBJECTS, MIDDLE_AFTER_RUNS, ALL_AFTER_RUNS)
    if _after_collection not in gc.callbacks:
        gc.callbacks.append(_after_collection)
    gc.enable()


def _after_collection(phase: str, run: dict[str, Any]) -> None:
    """Freeze what is alive, if it is much. There are no new objects just now, so no young cycle is frozen."""
    if phase == "stop" and run["generation"] >= _ALL and _old_objects() > MOST_OBJECTS:
        gc.freeze()


def _old_objects() -> int:
    return sum([len(gc.get_objects(generation)) for generation in (1, 2)])
