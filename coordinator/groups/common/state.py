"""The state of one core, and the one way in which records change it: the same live and in replay. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from muster.coordinator.groups.common.committed_offsets import Offsets
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.group_configs import GroupConfigs
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.common.shared_values import SharedValues
from muster.coordinator.state_machine.deadlines import Deadlines, Due
from muster.coordinator.state_machine.interface import Reply, TransactionalBatch
from muster.protocol.message import Message

Replay = Callable[["State", Any, Any], None]
"""Changes the state by one record: its key and its value."""
ReplayTransactional = Callable[["State", TransactionalBatch], int]
"""Changes the state by records of an open transaction. Returns their number."""


class State:
    """The groups of one partition of the offsets topic, of all types in one map, their offsets and deadlines."""

    __slots__ = (
        "_replay", "_replay_other", "_replay_transactional", "configs", "deadlines", "downgrade", "groups", "helpers",
        "image", "offsets", "orphans", "settings", "shared",
        "topic_deletion",
    )  # fmt: skip

    def __init__(
        self,
        settings: GroupSettings,
        image: TopicsImage,
        replay: Mapping[type[Message], Replay],
        replay_other: Replay,
        replay_transactional: ReplayTransactional,
        helpers: Any = None,
        downgrade: Any = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        """`replay`: by the type of the record's key; `replay_other`: for keys of other types.

        `helpers`: do large work elsewhere (`consumer.commands.Helpers`); None: work that can be done at once is done at
        once. `downgrade`: how consumer groups become classic groups (`consumer.commands.Downgrade`); None: they never
        do. `configs`: of single groups; with None, groups have no configuration of their own.
        """
        self._replay, self._replay_other, self._replay_transactional = replay, replay_other, replay_transactional
        self.settings = settings
        self.configs = configs or GroupConfigs(settings)
        self.helpers = helpers
        self.downgrade = downgrade
        self.image = image
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.deadlines = Deadlines()
        self.shared = SharedValues()
        self.topic_deletion: Any = None
        """The iteration over all groups for offsets of deleted topics (`offsets.topic_deletion`). None when it is not
        running.
        """
        self.orphans: dict[Due, Reply] = {}
        """Parked requests that no client waits for: the time of each answer, and the answer
        (`classic.parked_requests`).
        """

    def evolve(self, key: Message, value: Message | None) -> None:
        """Replay one record. A record of an unknown type (a later Kafka's) changes nothing."""
        self._replay.get(type(key), self._replay_other)(self, key, value)

    def evolve_transactional(self, batch: TransactionalBatch) -> int:
        """Replay records of an open transaction. Returns their number."""
        return self._replay_transactional(self, batch)

    def evolve_all(self, records: Iterable[tuple[Message, Message | None]]) -> int:
        """`evolve` for millions of records. Returns their number."""
        replay, other = self._replay.get, self._replay_other
        count = 0
        for key, value in records:
            replay(type(key), other)(self, key, value)
            count += 1
        return count
