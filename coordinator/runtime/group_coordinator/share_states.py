"""Asks the persister for the changes of states that share groups want, one question for each partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from muster.coordinator.groups.share.commands import (
    Failures,
    StatesCreated,
    StatesDeleted,
    StatesUnwanted,
    StatesWanted,
)
from muster.coordinator.share_state.persister import DeleteState, InitializeState, Persister, StateKey, StateResponse
from muster.coordinator.system.jobs import Job, PendingResult

ASKED_AT_ONCE: Final = 50
"""After this many questions the job pauses."""
Question = tuple[StateKey, Callable[[PendingResult], object]]


def change_states(
    persister: Callable[[], Persister], wanted: StatesWanted | StatesUnwanted
) -> Job[StatesCreated | StatesDeleted]:
    """Create or delete states, and return the command with the result for the core."""
    own = persister()
    if isinstance(wanted, StatesWanted):
        return StatesCreated(wanted, (yield from _answers(_creations(own, wanted))))
    failures: dict[str, Failures] = {}
    for group_id in wanted.partitions:
        failures[group_id] = yield from _answers(_deletions(own, wanted, group_id))
    return StatesDeleted(wanted, failures)


def _creations(persister: Persister, wanted: StatesWanted) -> Iterator[Question]:
    for topic_id, offsets in wanted.offsets.items():
        for partition, offset in offsets.items():
            key = StateKey(wanted.group_id, topic_id, partition)
            yield key, partial(persister.initialize, InitializeState(key, wanted.epoch, offset))


def _deletions(persister: Persister, wanted: StatesUnwanted, group_id: str) -> Iterator[Question]:
    for topic_id, partitions in wanted.partitions[group_id].items():
        for partition in partitions:
            key = StateKey(group_id, topic_id, partition)
            yield key, partial(persister.delete, DeleteState(key))


def _answers(questions: Iterable[Question]) -> Job[Failures]:
    waiting: list[tuple[StateKey, PendingResult]] = []
    for count, (key, ask) in enumerate(questions, 1):
        later = PendingResult()
        ask(later)
        waiting.append((key, later))
        if not count % ASKED_AT_ONCE:
            yield None
    failures: dict[tuple[bytes, int], tuple[int, str | None]] = {}
    for key, later in waiting:
        answer: Any = yield later
        assert isinstance(answer, StateResponse)
        if answer.error_code:
            failures[key.topic_id, key.partition] = answer.error_code, answer.error_message
    return failures
