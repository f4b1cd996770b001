"""Work for consumer groups that may take long: target assignments of large groups, and the topics of regular
expressions.

The work is done outside the iteration of the event loop that asked for it. The core of the shard then gets the result.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import structlog

from muster.coordinator.system.jobs import Job, JobQueue, OffloadedWork
from muster.coordinator.system.jobs.matching import Budget, matching
from muster.protocol.message import Message

if TYPE_CHECKING:
    from muster.assignors.assignor import Assignor
    from muster.coordinator.groups.consumer.commands import (
        AssignmentComputed,
        AssignmentWanted,
        Helpers,
        TopicsFound,
        TopicsWanted,
        UpgradePrepared,
        UpgradeWanted,
    )

log = structlog.get_logger("muster.groups")

Tell = Callable[[Any], object]
"""Gives the core of the shard an AssignmentComputed, TopicsFound, AnswersDue, or UpgradePrepared."""
_COMMANDS = "muster.coordinator.groups.consumer.commands"
"""Imported with the first work, so that a server without consumer groups does not pay for it."""
NAMES_AT_ONCE = 200
"""Topics for which the authorizer is asked between two steps of a search."""


class Nobody:
    """The owner of the job in place of a client: groups wait for the work, whoever asked for it.

    `failed`: the log line for work that has no result.
    """

    closed = False

    def __init__(self, failed: str) -> None:
        self._failed = failed

    def fault(self, error: Exception) -> None:
        """The work failed and has no result."""
        log.error(self._failed, error=repr(error))


def helpers(
    slices: JobQueue,
    tell: Tell,
    assignors: Mapping[str, Assignor] | None = None,
    call_soon: Callable[[Callable[[], object]], object] | None = None,
) -> Helpers:
    """The helpers that do such work for one shard.

    `assignors`: the assignors by name, with those of users; None stands for Muster's own. `call_soon` calls a function
    in the next iteration of the event loop. When `call_soon` is None, nothing is postponed.
    """

    def run(job: Callable[[Any], Job[Any]], wanted: Message) -> None:
        slices.run(job(wanted), tell, Nobody("work for a consumer group failed"))

    def later(what: Message) -> None:
        if call_soon is not None:
            call_soon(lambda: tell(what))

    return cast(
        "Helpers",
        _Helpers(
            partial(run, partial(_compute, assignors)),
            partial(run, _search),
            None if call_soon is None else later,
            partial(run, _read),
        ),
    )


class _Helpers:
    """The same as `consumer.commands.Helpers`, which then need not be imported."""

    __slots__ = ("compute", "later", "read", "search")

    def __init__(
        self,
        compute: Callable[[Message], object],
        search: Callable[[Message], object],
        later: Callable[[Message], object] | None,
        read: Callable[[Message], object],
    ) -> None:
        self.compute, self.search, self.later, self.read = compute, search, later, read


def _compute(assignors: Mapping[str, Assignor] | None, wanted: AssignmentWanted) -> Job[AssignmentComputed]:
    try:
        known = assignors or import_module("muster.assignors.builtin").SERVER_ASSIGNORS
        assignor: Assignor = known[wanted.assignor]
        prepared_target = import_module("muster.coordinator.groups.consumer.prepared_target")
        computed: AssignmentComputed = yield OffloadedWork(
            lambda: prepared_target.prepare_target(wanted, wanted.assign(assignor))
        )
    except Exception as error:  # noqa: BLE001 - an assignor may be the user's
        log.error("no target assignment", group=wanted.group_id, assignor=wanted.assignor, error=repr(error))
        failed: AssignmentComputed = import_module(_COMMANDS).AssignmentComputed(wanted, None)
        return failed
    return computed


def _read(wanted: UpgradeWanted) -> Job[UpgradePrepared]:
    prepared: Any = None
    try:
        prepared = yield OffloadedWork(wanted.read)
    except Exception as error:  # noqa: BLE001 - whoever waits for it is to be answered
        log.error("a classic group could not be read apart", error=repr(error))
    result: UpgradePrepared = import_module(_COMMANDS).UpgradePrepared(wanted.command, prepared)
    return result


def _search(wanted: TopicsWanted) -> Job[TopicsFound]:
    # It is imported here because it loads the library of patterns, which few servers need.
    patterns = import_module("muster.coordinator.system.patterns")
    budget = Budget()
    found: dict[str, list[str]] = {text: [] for text in wanted.patterns}
    for text in (yield from _cheapest_first(wanted.patterns, patterns.Pattern)):
        try:
            topics = yield from matching(patterns.Pattern(text), wanted.image.by_name, str, budget)
        except ValueError as error:  # the heartbeat's pattern was checked, but a log may contain others
            log.warning("a regular expression is left out", group=wanted.group_id, pattern=text, error=str(error))
            continue
        if wanted.client.seen is not None:
            topics = yield from _seen(wanted.client.seen, topics)
        if len(topics) > NAMES_AT_ONCE:
            topics = yield OffloadedWork(partial(sorted, topics))
        found[text] = topics
    result: TopicsFound = import_module(_COMMANDS).TopicsFound(wanted, found)
    return result


def _cheapest_first(texts: Sequence[str], read: Callable[[str], Any]) -> Job[Sequence[str]]:
    """The cheapest patterns first, so that a pattern that uses the whole budget takes nothing from the others."""
    if len(texts) == 1:
        return texts
    sizes: dict[str, int] = {}
    for text in texts:
        try:
            sizes[text] = read(text).size
        except ValueError:
            sizes[text] = 0  # it is read again, and left out
        yield None
    return sorted(texts, key=sizes.__getitem__)


def _seen(seen: Callable[[Sequence[str]], Container[str]], topics: Sequence[str]) -> Job[list[str]]:
    """The topics that the client may see."""
    kept: list[str] = []
    for start in range(0, len(topics), NAMES_AT_ONCE):
        part = topics[start : start + NAMES_AT_ONCE]
        allowed = seen(part)
        kept += [name for name in part if name in allowed]
        yield None
    return kept
