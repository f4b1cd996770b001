"""All share partitions that a node leads, and the share sessions of their members (Kafka: SharePartitionManager)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from muster.coordinator.groups.common.events import Event
from muster.coordinator.properties.live import Live
from muster.coordinator.runtime.share_partitions.endings import Ending
from muster.coordinator.runtime.share_partitions.group_configs import ShareConfig, share_config
from muster.coordinator.runtime.share_partitions.led_partition import DeadLetters, LedSharePartition, Machine
from muster.coordinator.share.partition import Change
from muster.coordinator.share.sessions import ShareSession, ShareSessions
from muster.coordinator.share_state.persister import Persister, StateKey
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.features import SHARE, level_of
from muster.coordinator.topics.partition import Partition

LOADS_AT_ONCE: Final = 100
"""How many states are read at once. Further share partitions are loaded when these are."""
QUEUES_FROM: Final = 2
"""The first level of share.version with dead-letter queues (KIP-1191)."""


class SharePartitions:
    """See the module. `sessions`: the share sessions of the members that read from this node."""

    def __init__(
        self,
        clock: Clock,
        persister: Persister,
        dead_letters: DeadLetters,
        run_behind: Callable[[Job[None]], object],
        live: Live,
        features: Callable[[], Mapping[str, int]],
        report: Callable[[Event], object],
    ) -> None:
        """`features`: returns the feature levels in the metadata log. `report`: takes events for groups' histories."""
        self._machine = Machine(clock, persister, dead_letters, run_behind, self._closed, report, self._ended)
        self.on_ended: Callable[[StateKey, Ending, Change], object] | None = None
        """Called when a change of records is durable. None means that nobody watches; the test control does."""
        self._live = live
        self._features = features
        self._own: dict[str, Mapping[str, str]] = {}
        self._configs: dict[str, ShareConfig] = {}
        """The configs of the groups that set some."""
        self._default = share_config({}, live.value, has_queues=False)
        self._by_group: dict[str, dict[StateKey, LedSharePartition]] = {}
        self._connections: dict[tuple[str, str], Callable[[], None]] = {}
        """Functions that cancel the calls at the end of the connections, by group and member."""
        self._to_load: deque[LedSharePartition] = deque()
        self._loads = 0
        self._is_loading = False
        limit = live.value("group.share.max.share.sessions")
        assert isinstance(limit, int)
        self.sessions = ShareSessions(limit)

    # ---- configs

    @property
    def level(self) -> int:
        """The level of share.version: 0 means that no share groups are served."""
        return level_of(self._features(), SHARE)

    def config(self, group_id: str) -> ShareConfig:
        """The configs of a group."""
        return self._configs.get(group_id, self._default)

    def configured(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Use new configs of a group."""
        if configs:
            self._own[group_id] = configs
            has_queues = self.level >= QUEUES_FROM
            self._configs[group_id] = share_config(configs, self._live.value, has_queues=has_queues)
        else:
            self._own.pop(group_id, None)
            self._configs.pop(group_id, None)
        for share in self.of_group(group_id):
            share.configured(self.config(group_id))

    def features_changed(self) -> None:
        """Use new feature levels. Without share groups, all sessions and share partitions end."""
        if not self.level:
            self.stop()
        for group_id, configs in self._own.items():
            self.configured(group_id, configs)

    # ---- the share partitions

    def find(self, key: StateKey) -> LedSharePartition | None:
        """A share partition that is loaded, or is being loaded."""
        return self._by_group.get(key.group_id, {}).get(key)

    def of_group(self, group_id: str) -> list[LedSharePartition]:
        """The share partitions of a group that are loaded, or are being loaded."""
        return [*self._by_group.get(group_id, {}).values()]

    def led(self, key: StateKey, partition: Partition) -> LedSharePartition:
        """The share partition over `partition`, which this node leads. It is loaded if it is new."""
        share = self.find(key)
        if share is not None and share.partition is not partition:
            share.close()
            share = None
        if share is None:
            share = LedSharePartition(key, partition, self.config(key.group_id), self._machine)
            self._by_group.setdefault(key.group_id, {})[key] = share
            if self._loads < LOADS_AT_ONCE:
                self._load(share)
            else:
                self._to_load.append(share)
        share.stay()
        return share

    def _load(self, share: LedSharePartition) -> None:
        self._loads += 1
        share.load(self._loaded)

    def _loaded(self) -> None:
        self._loads -= 1
        if self._to_load and not self._is_loading:
            self._is_loading = True
            self._machine.run_behind(self._loading())

    def _loading(self) -> Job[None]:
        while self._to_load and self._loads < LOADS_AT_ONCE:
            self._load(self._to_load.popleft())
            yield None
        self._is_loading = False

    def _ended(self, key: StateKey, ending: Ending, change: Change) -> None:
        if self.on_ended is not None:
            self.on_ended(key, ending, change)

    def _closed(self, share: LedSharePartition) -> None:
        group_id = share.key.group_id
        some = self._by_group.get(group_id, {})
        if some.get(share.key) is share:
            del some[share.key]
            if not some:
                del self._by_group[group_id]

    # ---- the ends of sessions

    def on_disconnect(
        self, group_id: str, member_id: str, on_close: Callable[[Callable[[], object]], Callable[[], None]]
    ) -> None:
        """End the new session of a member when its connection ends. `on_close`: `Channel.on_close`."""
        self._forget_connection(group_id, member_id)
        self._connections[group_id, member_id] = on_close(partial(self._disconnected, group_id, member_id))

    def _forget_connection(self, group_id: str, member_id: str) -> None:
        forget = self._connections.pop((group_id, member_id), None)
        if forget is not None:
            forget()

    def _disconnected(self, group_id: str, member_id: str) -> None:
        self._machine.run_behind(self.end_session(group_id, member_id))

    def end_session(self, group_id: str, member_id: str) -> Job[None]:
        """End the session of a member. Returns the job that makes its records available again.

        Without a session, nothing happens.
        """
        self._forget_connection(group_id, member_id)
        return self._releasing(self.sessions.end(group_id, member_id), self._machine.clock.now().mono_ms)

    def _releasing(self, session: ShareSession | None, ended_ms: int) -> Job[None]:
        if session is None:
            return
        group_id = session.group_id
        for place in session.rows:
            share = self.find(StateKey(group_id, place.topic_id, place.partition))
            if share is not None:
                yield from share.releasing(session.member_id, ended_ms)
                yield None
        if not self.sessions.members(group_id):
            for share in self.of_group(group_id):
                share.leave()

    def stop(self) -> None:
        """End all sessions, and close all share partitions."""
        self.sessions = ShareSessions(self.sessions.limit)
        for forget in self._connections.values():
            forget()
        self._connections.clear()
        for some in list(self._by_group.values()):
            for share in list(some.values()):
                share.close()
