"""Settings of Python's cyclic garbage collector, in a process that serves.

No collection visits more than some 70,000 objects, however many the process has. When more than a few have survived a
full collection, they are frozen. They are not visited again, and are freed when nothing refers to them. So the
collector finds cycles only among young or few objects. Muster makes no other cycles: a closed connection, or a deleted
group or topic, leaves none (`tests/coordinator/test_no_cycles.py`).
"""

from __future__ import annotations

import gc
import sys
from typing import Any, Final

EVERY_OBJECTS: Final = 8_000
"""New objects between two collections. Members and connections live long and are in few cycles. Python's default of 700
took a tenth of the time in which a thousand members join.
"""
MIDDLE_AFTER_RUNS: Final = 1
"""After so many collections the surviving objects are visited once more: at most 25,000 objects, some 2 ms. After 10
collections, Python's default, they are ten times as many.
"""
ALL_AFTER_RUNS: Final = 0
"""After one such collection all objects that are not frozen are visited, when a quarter of them is new."""
MOST_OBJECTS: Final = 20_000
"""When more objects have survived that, they are frozen. Otherwise Python would visit all of them again and again. With
1 GB of heap one such visit took 400 to 950 ms. A visit of 150,000 objects took 15 ms alone and 40 ms on a busy machine.
"""
_ALL: Final = 1 if sys.version_info[:2] == (3, 14) else 2
"""The generation of a collection after which old objects are frozen. The collector of Python 3.14.0 never visits all
objects by itself.
"""


def begin() -> None:
    """Collect from now on, except the present objects, which stay as long as the process."""
    gc.freeze()
    gc.collect()  # Python waits until a quarter is new, of what the last full collection visited: now of nothing
    gc.set_threshold(EVERY_OBJECTS, MIDDLE_AFTER_RUNS, ALL_AFTER_RUNS)
    if _after_collection not in gc.callbacks:
        gc.callbacks.append(_after_collection)
    gc.enable()


def _after_collection(phase: str, run: dict[str, Any]) -> None:
    """Freeze all objects, if they are many. After a collection no young cycle exists, so none is frozen."""
    if phase == "stop" and run["generation"] >= _ALL and _old_objects() > MOST_OBJECTS:
        gc.freeze()


def _old_objects() -> int:
    return sum([len(gc.get_objects(generation)) for generation in (1, 2)])
