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

    def name(self, what: str, version: int | None = None) -> str:
        """A name of this run. With a version, the name belongs to one probe alone."""
        return f"{self.prefix}-{what}" if version is None else f"{self.prefix}-{what}-v{version}-{self.form}"

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
