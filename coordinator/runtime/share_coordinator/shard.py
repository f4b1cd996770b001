"""A `CoordinatorShard` of a `ShareStateCore`: one partition of __share_group_state. This module is imported late."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.runtime.shard import CoordinatorShard
from muster.coordinator.runtime.share_coordinator import error_responses
from muster.coordinator.runtime.share_coordinator.record_codec import RecordCodec
from muster.coordinator.share_state.core import Forget, ShareStateCore, ShareStateSettings
from muster.coordinator.share_state.persister import StateRequest
from muster.coordinator.share_state.requests import StateCommand
from muster.coordinator.share_state.state import LogPosition
from muster.coordinator.state_machine.interface import Client, Respond
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.names import SHARE_STATE_TOPIC
from muster.coordinator.topics.topics import Topics
from muster.protocol.message import Message

WHAT: Final = "states of share groups"
FORGOTTEN_AT_ONCE: Final = 1_000
"""How many states of deleted topics are deleted with one batch of tombstones."""
_BROKER: Final = Client("", "")


class ShareStateShard:
    """The shard of one partition of __share_group_state."""

    def __init__(
        self,
        partition: int,
        settings: ShareStateSettings,
        open_log: Callable[[], tuple[UnifiedLog, int]],
        clock: Clock,
        image: TopicsImage,
        *,
        linger_ms: int,
    ) -> None:
        """`open_log`, `linger_ms`: see `CoordinatorShard`. `image`: the present topics."""
        self.partition = partition
        self._image = image
        self.runtime: CoordinatorShard[ShareStateCore] = CoordinatorShard(
            partition,
            WHAT,
            lambda: ShareStateCore(settings, self._delete_before),
            open_log,
            RecordCodec(partition),
            error_responses,
            clock,
            linger_ms=linger_ms,
        )

    def keys(self) -> Iterable[str]:
        """The share partitions, as the keys that decide their places; none while the shard is not active."""
        core = self.runtime.core
        return () if core is None else map(str, core.states.partitions)

    def submit(self, request: StateRequest, respond: Respond) -> None:
        """Decide a request. `respond` gets the answer when it may leave."""
        topic = self._image.by_id.get(request.key.topic_id)
        count = 0 if topic is None else topic.partitions
        self.runtime.submit(StateCommand(request, respond, _BROKER, partitions=count))

    def topics_changed(self, image: TopicsImage) -> None:
        """Use the changed image of the topics, and delete the states of deleted topics."""
        gone, self._image = image.gone_since(self._image), image
        core = self.runtime.core
        if core is None or not gone:
            return
        keys = [key for key in core.states.partitions if key.topic_id in gone]
        for start in range(0, len(keys), FORGOTTEN_AT_ONCE):
            forget = Forget(keys[start : start + FORGOTTEN_AT_ONCE])
            self.runtime.run(lambda core, now, forget=forget: core.handle(forget, now))  # type: ignore[misc]  # bound now

    def _delete_before(self, position: Message) -> None:
        if isinstance(position, LogPosition):  # otherwise the shard has failed
            with suppress(LogError, OSError):  # the next write raises the same error
                self.runtime.log.delete_records_before(position.offset)


def share_state_shards(
    topics: Topics, clock: Clock, settings: ShareStateSettings, linger_ms: int
) -> list[ShareStateShard]:
    """One shard for each partition of __share_group_state, in order. No shard is started."""
    return [
        ShareStateShard(
            index,
            settings,
            partial(topics.open.open_log, SHARE_STATE_TOPIC, index),
            clock,
            topics.image,
            linger_ms=linger_ms,
        )
        for index in range(len(topics.by_name[SHARE_STATE_TOPIC].partitions))
    ]
