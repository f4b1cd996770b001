"""Large work in steps, so that one request does not keep other requests waiting."""

from muster.coordinator.system.jobs.job_queue import MANY_STEPS, SHARE_MS, SLICE_MS, JobQueue, Owner, to_its_end
from muster.coordinator.system.jobs.jobs import (
    AtOnce,
    Job,
    OffloadedWork,
    PendingResult,
    SerialJobs,
    Thread,
    Worker,
    at_once,
    counting,
    outcome,
)

__all__ = [
    "MANY_STEPS", "SHARE_MS", "SLICE_MS", "AtOnce", "Job", "JobQueue", "OffloadedWork", "Owner", "PendingResult",
    "SerialJobs", "Thread", "Worker", "at_once", "counting", "outcome", "to_its_end",
]  # fmt: skip
