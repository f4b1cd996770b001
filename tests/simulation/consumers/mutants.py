"""Cores with a deliberate fault: each breaks one rule, and the checkers must find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from muster.coordinator.groups.consumer import group, leave, reconcile
from muster.coordinator.groups.consumer.group import ConsumerGroup

Break = Callable[[pytest.MonkeyPatch], None]


def _everything_is_free(patch: pytest.MonkeyPatch) -> None:
    """Partitions are assigned while another member has them."""
    patch.setattr(reconcile, "free_partitions", lambda _group, _topic_id, partitions, _member_id: partitions)


def _nobody_revokes(patch: pytest.MonkeyPatch) -> None:
    """Partitions of a pending revocation count as free at once."""
    real = ConsumerGroup.update_position

    def move(self: ConsumerGroup, member: Any, at: Any) -> None:
        real(self, member, at)
        for topic_id, partitions, _ in at.revoking:
            for partition in partitions:
                self.owners.get(topic_id, {}).pop(partition, None)

    patch.setattr(group.ConsumerGroup, "update_position", move)


def _the_dead_stay(patch: pytest.MonkeyPatch) -> None:
    """A silent member keeps its partitions for ever."""
    patch.setattr(leave, "_put_off", lambda *_: True)


def _epoch_back(patch: pytest.MonkeyPatch) -> None:
    """The group's epoch goes back when members leave."""
    real = leave.remove

    def remove(step: Any, one: ConsumerGroup, *rest: Any) -> None:
        one.epoch -= 2
        real(step, one, *rest)

    patch.setattr(leave, "remove", remove)


MUTANTS: Final[Mapping[str, tuple[Break, str]]] = {
    "everything is free": (_everything_is_free, "is of"),
    "nobody revokes": (_nobody_revokes, "is of"),
    "the dead stay": (_the_dead_stay, "not owned in the end"),
    "an epoch goes back": (_epoch_back, "after"),
}
"""How the core is broken -> words of the checker's report."""
