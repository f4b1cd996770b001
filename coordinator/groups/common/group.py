"""The interface of groups of all types: a name, a state, and checks for offsets, retention and deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from muster.coordinator.state_machine.deadlines import Deadlines
from muster.protocol.message import Message

SINCE_COMMIT: Final = -1
"""A result of `Group.unused_since_ms`: each offset counts as unused since its commit."""
NOT_NOW: Final = 2**63 - 1
"""A result of `Group.unused_since_ms`: no offset expires (Kafka's offsetExpirationCondition)."""

MEMBER_EPOCHS_SINCE: Final = 9
"""The first version of OffsetCommit and OffsetFetch with member epochs (KIP-848)."""
NEWEST_COMMIT: Final = 10
"""The newest version of OffsetCommit."""
Protocols = tuple[tuple[str, bytes], ...]
"""The protocols that a member offers, as (name, metadata), the preferred protocol first."""
Partitions = Callable[[], Iterable[tuple[str, bytes, int]]]
"""The partitions of a request, as (topic, topic id, partition)."""


class Group(Protocol):
    """One group. Each type of group has a class, for which `core` names the functions."""

    group_id: str

    @property
    def protocol_type(self) -> str | None:
        """The protocol type, as in ListGroups."""

    @property
    def state(self) -> str:
        """The state, as in ListGroups."""

    @property
    def kind(self) -> str:
        """The type, as in ListGroups."""

    def record_keys(self) -> list[Message]:
        """The keys of all records that are in force for the group, without the keys of offsets."""

    def validate_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        version: int = NEWEST_COMMIT,
        partitions: Partitions | None = None,
    ) -> int:
        """0 if this member may commit offsets in this epoch (a classic group's generation), else Kafka's error code.

        `version`: the version of the request. `partitions`: None if unknown; then a past epoch is refused.
        """

    def validate_transactional_commit(
        self, member_id: str, instance_id: str | None, epoch: int, partitions: Partitions
    ) -> int:
        """0 if offsets may be committed in a transaction for this member and epoch (KIP-447), else Kafka's error code.

        A commit that names no member has epoch -1, no member id and no instance id.
        """

    def validate_fetch(self, member_id: str | None, epoch: int) -> int:
        """0 if this member may read offsets in this epoch, else Kafka's error code."""

    def has_committed(self, member_id: str, deadlines: Deadlines, mono_ms: int) -> None:
        """Note an allowed commit. If a commit counts as a heartbeat in this type of group, the session begins again."""

    def validate_offset_delete(self) -> int:
        """0 if the state of the group allows that offsets are deleted, else Kafka's error code."""

    def deletion_error(self) -> int:
        """0 if the group may be deleted, else Kafka's error code."""

    def is_unused(self) -> bool:
        """Whether the group has neither members nor pending member ids."""

    def unused_since_ms(self) -> int:
        """From what time (wall ms) offsets of unsubscribed topics count as unused; or SINCE_COMMIT, or NOT_NOW."""

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, or may subscribe to it."""
