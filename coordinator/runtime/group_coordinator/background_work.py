"""Work for groups that may take long, in jobs: large target assignments, topics of regular expressions, hashes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

import structlog

from muster.assignors.assignor import Assignor
from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.coordinator.groups.common.helpers import Helpers
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.topic_hashes import hash_of_topic
from muster.coordinator.groups.consumer.commands import (
    AssignmentComputed,
    AssignmentWanted,
    TopicsFound,
    TopicsWanted,
    UpgradePrepared,
    UpgradeWanted,
)
from muster.coordinator.groups.consumer.prepared_target import compute
from muster.coordinator.groups.streams.target import TasksComputed, TasksWanted
from muster.coordinator.groups.streams.target import computed as compute_tasks
from muster.coordinator.runtime.group_coordinator.share_states import change_states
from muster.coordinator.share_state.persister import Persister
from muster.coordinator.system.jobs import Job, JobQueue, OffloadedWork
from muster.coordinator.system.jobs.matching import Budget, matching
from muster.protocol.message import Message

log = structlog.get_logger("muster.groups")

Notify = Callable[[Any], object]
"""A function that gives the shard's core the result of work, such as an AssignmentComputed or TasksComputed."""
NAMES_AT_ONCE = 200
"""How many topic names are matched in one step."""


class NoClient:
    """The owner of a job that works for no client. `failed`: the log line when the work fails."""

    closed = False

    def __init__(self, failed: str) -> None:
        self._failed = failed

    def fault(self, error: Exception) -> None:
        """Log that the work failed and has no result."""
        log.error(self._failed, error=repr(error))


def helpers(
    job_queue: JobQueue,
    notify: Notify,
    assignors: Mapping[str, Assignor] | None = None,
    call_soon: Callable[[Callable[[], object]], object] | None = None,
    persister: Callable[[], Persister] | None = None,
) -> Helpers:
    """The helpers of one shard, which do large work in jobs. `assignors`: None stands for Muster's assignors.

    `call_soon` calls a function in the next iteration of the event loop. Without `call_soon` no answer is postponed.
    `persister` returns what keeps the states of share partitions. None means that no states are kept.
    """

    def run(job: Callable[[Any], Job[Any]], wanted: Message) -> None:
        job_queue.run(job(wanted), notify, NoClient("work for a consumer group failed"))

    def later(what: Message) -> None:
        if call_soon is not None:
            call_soon(lambda: notify(what))

    return Helpers(
        partial(run, partial(_compute, assignors or SERVER_ASSIGNORS)),
        partial(run, _search),
        None if call_soon is None else later,
        partial(run, _read),
        None if persister is None else partial(run, partial(change_states, persister)),
    )


def _compute(
    assignors: Mapping[str, Assignor], wanted: AssignmentWanted | TasksWanted
) -> Job[AssignmentComputed | TasksComputed]:
    try:
        if isinstance(wanted, TasksWanted):
            work: Callable[[], AssignmentComputed | TasksComputed] = partial(compute_tasks, wanted)
        else:
            work = partial(compute, wanted, assignors[wanted.assignor])
        return cast("AssignmentComputed | TasksComputed", (yield OffloadedWork(work)))
    except Exception as error:  # noqa: BLE001  # an assignor may be the user's
        log.error("no target assignment", group=wanted.group_id, assignor=wanted.assignor, error=repr(error))
        return TasksComputed(wanted, None) if isinstance(wanted, TasksWanted) else AssignmentComputed(wanted, None)


def _read(wanted: UpgradeWanted) -> Job[UpgradePrepared]:
    prepared: Any = None
    try:
        prepared = yield OffloadedWork(wanted.read)
    except Exception as error:  # noqa: BLE001  # the heartbeat must be answered in any case
        log.error("the members of a classic group could not be decoded", error=repr(error))
    return UpgradePrepared(wanted.command, prepared)


def _search(wanted: TopicsWanted) -> Job[TopicsFound]:
    # This module is imported late because it loads the library of patterns, which few servers need.
    from muster.coordinator.system.patterns import Pattern

    budget = Budget()
    found: dict[str, list[str]] = {text: [] for text in wanted.patterns}
    for text in (yield from _cheapest_first(wanted.patterns, Pattern)):
        try:
            topics = yield from matching(Pattern(text), wanted.image.by_name, str, budget)
        except ValueError as error:  # the heartbeat's pattern was checked, but a log may contain invalid patterns
            log.warning("a regular expression is left out", group=wanted.group_id, pattern=text, error=str(error))
            continue
        if wanted.client.seen is not None:
            topics = yield from _seen(wanted.client.seen, topics)
        if len(topics) > NAMES_AT_ONCE:
            topics = yield OffloadedWork(partial(sorted, topics))
        found[text] = topics
    return TopicsFound(wanted, found)


def _cheapest_first(texts: Sequence[str], read: Callable[[str], Any]) -> Job[Sequence[str]]:
    """The patterns, the cheapest first: if a pattern uses up the budget, the cheaper patterns have been matched."""
    if len(texts) == 1:
        return texts
    sizes: dict[str, int] = {}
    for text in texts:
        try:
            sizes[text] = read(text).size
        except ValueError:
            sizes[text] = 0  # `read` fails on this pattern again, and leaves it out
        yield None
    return sorted(texts, key=sizes.__getitem__)


def _seen(seen: Callable[[Sequence[str]], Container[str]], topics: Sequence[str]) -> Job[list[str]]:
    kept: list[str] = []
    for start in range(0, len(topics), NAMES_AT_ONCE):
        part = topics[start : start + NAMES_AT_ONCE]
        allowed = seen(part)
        kept += [name for name in part if name in allowed]
        yield None
    return kept


FEW_TOPICS: Final = 500
"""Up to this many new topics are hashed without a job (2 ms), by the group that needs the hashes."""
HASHED_AT_ONCE: Final = 50
"""How many topics are hashed in one step."""


class TopicHasher:
    """Hashes the new topics of each image, many topics in a job. A group may subscribe to 10,000 new topics."""

    def __init__(self, job_queue: JobQueue, rack: str | None) -> None:
        """`rack`: the rack of this node."""
        self._job_queue = job_queue
        self._rack = rack
        self._seen = 0

    def topics_changed(self, image: TopicsImage) -> None:
        """Hash the new topics of a changed image."""
        count = len(image.by_name)
        self._seen = min(self._seen, count)
        if count - self._seen > FEW_TOPICS:
            self._seen = count
            self._job_queue.run(
                self._hash(image),
                lambda _: None,
                NoClient("topics could not be hashed; groups do it when they need it"),
            )

    def _hash(self, image: TopicsImage) -> Job[None]:
        for number, topic in enumerate(image.by_name.values()):
            hash_of_topic(topic, self._rack)
            if not number % HASHED_AT_ONCE:
                yield None
