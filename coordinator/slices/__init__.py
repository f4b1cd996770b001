"""Large work in slices, so that one request does not keep the others waiting: jobs (`jobs`), what runs them (`slices`),
the thread for work that cannot be interrupted (`workers`), and the names that match a pattern (`matching`).
"""

from muster.coordinator.slices.jobs import Apart, Job, Later, OneByOne, at_once, counting
from muster.coordinator.slices.slices import MANY_STEPS, SHARE_MS, SLICE_MS, Owner, Slices, to_its_end
from muster.coordinator.slices.workers import AtOnce, Thread, Worker, outcome

__all__ = [
    "MANY_STEPS", "SHARE_MS", "SLICE_MS", "Apart", "AtOnce", "Job", "Later", "OneByOne", "Owner", "Slices", "Thread",
    "Worker", "at_once", "counting", "outcome", "to_its_end",
]  # fmt: skip
