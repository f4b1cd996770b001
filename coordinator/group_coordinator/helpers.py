"""Work for consumer groups that may take long: target assignments of large groups, and the topics of regular
expressions. It is done apart from the event loop; the core of the shard is told the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import structlog

from muster.assignors.assignor import Assignment, Assignor
from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.coordinator.groups.consumer.commands import (
    AssignmentComputed,
    AssignmentWanted,
    Helpers,
    TopicsFound,
    TopicsWanted,
)
from muster.coordinator.slices import Apart, Job, Slices
from muster.protocol.message import Message

log = structlog.get_logger("muster.groups")

Tell = Callable[[AssignmentComputed | TopicsFound], object]
"""Tells the core of the shard."""
NAMES_AT_ONCE = 200
"""Topics that are looked at between two steps of a search."""


class _Nobody:
    """In place of a client: a group waits for the work, whoever has asked."""

    closed = False

    def fault(self, error: Exception) -> None:
        """The core is told that there is no result."""
        log.error("work for a consumer group failed", error=repr(error))


def helpers(slices: Slices, tell: Tell, assignors: Mapping[str, Assignor] | None = None) -> Helpers:
    """What does such work for one shard. `assignors`: by name, those of users among them; None: Muster's."""

    def run(job: Callable[[Any], Job[Any]], wanted: Message) -> None:
        slices.run(job(wanted), tell, _Nobody())

    return Helpers(partial(run, partial(_compute, assignors or SERVER_ASSIGNORS)), partial(run, _search))


def _compute(assignors: Mapping[str, Assignor], wanted: AssignmentWanted) -> Job[AssignmentComputed]:
    assignment: Assignment | None = None
    try:
        assignor = assignors[wanted.assignor]
        assignment = yield Apart(partial(assignor.assign, wanted.members, wanted.topics))
    except Exception as error:  # noqa: BLE001 - an assignor may be the user's
        log.error("no target assignment", group=wanted.group_id, assignor=wanted.assignor, error=repr(error))
    return AssignmentComputed(wanted, assignment)


def _search(wanted: TopicsWanted) -> Job[TopicsFound]:
    # imported here: it loads the library of patterns, which hardly anybody needs
    patterns = import_module("muster.coordinator.patterns")
    found: dict[str, Sequence[str]] = {}
    for text in wanted.patterns:
        topics: list[str] = []
        try:
            matches = patterns.Pattern(text).matches
            for number, name in enumerate(wanted.image.by_name):
                if matches(name):
                    topics.append(name)
                if not number % NAMES_AT_ONCE:
                    yield None
        except ValueError as error:  # it was looked at when it came: but a log may have others
            log.warning("a regular expression is left out", group=wanted.group_id, pattern=text, error=str(error))
        found[text] = topics
    result: Mapping[str, Sequence[str]] = found
    return TopicsFound(wanted, result)
