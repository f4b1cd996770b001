"""Large work in steps, so that one request does not keep the others waiting.

`jobs` has the jobs, `job_queue` runs them, `workers` has the thread for work that cannot be interrupted. `matching`
finds the names that match a pattern.
"""

from muster.coordinator.system.jobs.job_queue import MANY_STEPS, SHARE_MS, SLICE_MS, JobQueue, Owner, to_its_end
from muster.coordinator.system.jobs.jobs import Job, OffloadedWork, PendingResult, SerialJobs, at_once, counting
from muster.coordinator.system.jobs.workers import AtOnce, Thread, Worker, outcome

__all__ = [
    "MANY_STEPS", "SHARE_MS", "SLICE_MS", "AtOnce", "Job", "JobQueue", "OffloadedWork", "Owner", "PendingResult",
    "SerialJobs", "Thread", "Worker", "at_once", "counting", "outcome", "to_its_end",
]  # fmt: skip
