"""What a probe knows of the target: names of this run, and what was found before the first probe."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Generator
from typing import Any

Body = dict[str, Any]

NOBODY = 2_147_483_647
"""The id of a broker that no cluster has."""
OTHER_CLUSTER = "muster-conform-is-elsewhere"


MOST_SALTS = 10_000
"""How many endings of a name are tried until its coordinator is the right broker."""


@dataclasses.dataclass(frozen=True)
class Owner:
    """One broker of a cluster, and which coordinators it has."""

    node_id: int
    group_leaders: tuple[int, ...]
    """The leader of each partition of __consumer_offsets."""
    transaction_leaders: tuple[int, ...]
    """The leader of each partition of __transaction_state. Empty: the target has no transactions."""

    def coordinates_group(self, name: str) -> bool:
        """Whether the broker coordinates the group of this name."""
        return self._leads(self.group_leaders, name)

    def coordinates_transactions(self, name: str) -> bool:
        """Whether the broker coordinates the transactional id of this name."""
        return self._leads(self.transaction_leaders, name)

    def _leads(self, leaders: tuple[int, ...], name: str) -> bool:
        return not leaders or leaders[java_hash(name) % len(leaders)] == self.node_id


def java_hash(text: str) -> int:
    """Java's hash of a text of ASCII, without its sign. Kafka finds the partition of a coordinator by it."""
    value = 0
    for letter in text.encode("ascii"):
        value = value * 31 + letter & 0xFFFFFFFF
    if value == 0x80000000:
        return 0
    return 0x100000000 - value if value > 0x80000000 else value


@dataclasses.dataclass(frozen=True)
class Place:
    """Everything that the bodies of probes are made of."""

    prefix: str
    topic: str
    """A topic of this run, with two partitions and three records in the first one."""
    topic_id: uuid.UUID
    node_id: int = 1
    batch: bytes = b""
    """A record batch of one record."""
    form: str = ""
    """The form of the probe, for names that no other probe has."""
    owner: Owner | None = None
    """The broker that gets the probes. None means that the target has no others."""

    def name(self, what: str, version: int | None = None) -> str:
        """A name of this run. With a version, the name belongs to one probe alone.

        Groups of this name are coordinated by the broker that gets the probes.
        """
        return self._name(what, version, None if self.owner is None else self.owner.coordinates_group)

    def transactional_id(self, what: str, version: int | None = None) -> str:
        """The same for a transactional id: the two kinds of coordinators are seldom one broker for one name."""
        return self._name(what, version, None if self.owner is None else self.owner.coordinates_transactions)

    def _name(self, what: str, version: int | None, fits: Callable[[str], bool] | None) -> str:
        name = f"{self.prefix}-{what}" if version is None else f"{self.prefix}-{what}-v{version}-{self.form}"
        if fits is None or fits(name):
            return name
        salted = (f"{name}-{salt}" for salt in range(MOST_SALTS))
        return next(filter(fits, salted), name)

    @property
    def group(self) -> str:
        """A group without members, with a committed offset."""
        return self.name("simple")

    @property
    def no_topic(self) -> str:
        """A topic that nobody has made."""
        return self.name("nowhere")

    @property
    def no_topic_id(self) -> uuid.UUID:
        """The id of a topic that nobody has made."""
        return uuid.uuid5(uuid.NAMESPACE_URL, self.no_topic)


@dataclasses.dataclass(frozen=True)
class Ask:
    """A request of a script. `api` None means that it is the probe itself, in the probe's version."""

    body: Body
    api: str | None = None
    """Other requests are sent in the highest version that the target and Kafka's definitions share."""


Script = Generator[Ask, Body, None]
"""Requests of one probe, one after the other; each gets its answer. One of them is the probe."""

MakeBody = Callable[[Place, int], Body | Script]
"""Makes the rich form of a request in a version."""
