"""Requests of every API and version, drawn along the layouts of the generated modules. Their values mean something to
the node: existing groups, topics, members and producers, and numbers at the ends of their ranges.
"""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any, Final, NamedTuple

from muster.coordinator.api.registry import SERVED
from muster.protocol.api import Api, ApiKey, api
from muster.protocol.frames import request_frame
from muster.protocol.malformed import LayoutField, within
from muster.protocol.message import ZERO_UUID, Message
from tests.protocol.random_messages import RANGES, Layout, layouts
from tests.torture.wire.records import Batches

QUIET: Final = "of-the-innocent"
"""A topic that no attacker names."""
TOPICS: Final = ("work", "orders", "made-1", "made-2", "nowhere", "", "__consumer_offsets", "x" * 250, "a/b")
GROUPS: Final = ("g0", "g1", "g2", "c0", "c1", "", "new", "ü" * 80)
IDS: Final = ("t0", "t1", "", "t" * 300)
NAMES: Final = {
    "protocol_type": ("consumer", "connect", ""),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", ""),
    "subscribed_topic_regex": ("wor.*", ".*", "(", "[[:alpha:]]+", "(a|aa)+$", "", "x{1000}"),
    "server_assignor": ("uniform", "range", "mine", ""),
    "resource_name": ("work", "1", "", "g0", "*", "-1"),
    "principal": ("User:bob", "User:*", "bob", "", "User:"),
    "host": ("*", "127.0.0.1", "", "nowhere"),
    "config_name": ("retention.ms", "max.message.bytes", "cleanup.policy", "compression.type", "nothing", ""),
    "value": ("1000000", "-1", "delete", "compact,delete", "zstd", "", "x" * 30_000),
    "states_filter": ("Stable", "Empty", "stable", "", "Nothing"),
    "types_filter": ("classic", "consumer", "share", ""),
}
"""Valid words for fields with names."""
TEXTS: Final = ("", "a", "range", "gr\u00fcppe", "\U0001f600", "\0", "x" * 127, "y" * 128, "z" * 5000)
TIMES_MS: Final = (0, 1, 100, 1_000, 10_000, 45_000, 60_000, 300_000, -1, 2**31 - 1)
MANY: Final = 3_000
"""The number of equal elements of a long array."""
MAX_OF_MANY_BYTES: Final = 20_000
"""The largest size of batches in such an element: the length of a frame has 31 bits."""


SPARED: Final = frozenset({ApiKey.UNREGISTER_BROKER})
"""A client that may alter the cluster may remove its only broker; then no client is served, as requested."""


class Drawn(NamedTuple):
    """A request, and the version in which it is sent."""

    api: Api
    version: int
    message: Message

    def frame(self, correlation: int, client_id: str) -> bytes:
        """The frame that a client sends."""
        return request_frame(self.api, self.version, correlation, self.message, client_id)


class Kind(NamedTuple):
    """One version of one API."""

    api: Api
    version: int
    layout: Layout


class Known:
    """What the node has answered so far: names that later requests use."""

    def __init__(self) -> None:
        self.members: list[str] = ["", "nobody"]
        self.producers: list[tuple[int, int]] = [(-1, -1), (4_000, 0)]
        self.uuids: list[bytes] = [ZERO_UUID, b"\1" * 16]

    def learn(self, response: Any) -> None:
        """Learn names from an answer."""
        member_id = getattr(response, "member_id", None)
        if member_id and len(self.members) < 40:
            self.members.append(member_id)
        producer_id = getattr(response, "producer_id", None)
        if isinstance(producer_id, int) and producer_id >= 0 and len(self.producers) < 40:
            self.producers.append((producer_id, response.producer_epoch))
        for topic in getattr(response, "topics", None) or ():
            topic_id = getattr(topic, "topic_id", ZERO_UUID)
            if getattr(topic, "name", None) in (None, QUIET):
                continue
            if topic_id != ZERO_UUID and topic_id not in self.uuids and len(self.uuids) < 40:
                self.uuids.append(topic_id)


def kinds() -> list[Kind]:
    """Everything that is served, also versions that are only advertised."""
    known = layouts()
    return [
        Kind(one, version, known[one.name + "Request"])
        for one in map(api, sorted(SERVED.keys() - SPARED))
        for version in range(max(SERVED[one.key].min_version, one.min_version), SERVED[one.key].max_version + 1)
    ]


class Drawing:
    """Draws requests."""

    def __init__(self, rng: Random, known: Known, all_kinds: list[Kind], batches: Batches) -> None:
        self._rng = rng
        self._known = known
        self._kinds = all_kinds
        self._batches = batches
        self._in_many = False

    def request(self) -> Drawn:
        """A random request."""
        kind = self._rng.choice(self._kinds)
        layout = kind.layout
        return Drawn(kind.api, kind.version, self._struct(layout.module, layout.message, layout.fields, kind.version))

    def _struct(self, module: ModuleType, cls: Any, fields: list[LayoutField], version: int) -> Any:
        random = self._rng.random
        values = {}
        for field in fields:
            if not within(version, field.versions) or (field.tag is not None and random() < 0.5):
                continue
            if random() < 0.15 and within(version, field.nullable):
                values[field.name] = None
            elif field.array:
                values[field.name] = self._array(module, field, version)
            else:
                values[field.name] = self._one(module, field, version)
        return cls(**values)

    def _array(self, module: ModuleType, field: LayoutField, version: int) -> list[Any]:
        if not self._in_many and self._rng.random() < 0.002:
            self._in_many = True  # many long arrays together would fill the sender's memory
            element = self._one(module, field, version)
            self._in_many = False
            return [element] * MANY
        return [self._one(module, field, version) for _ in range(self._rng.choice((0, 1, 1, 1, 2, 3)))]

    def _one(self, module: ModuleType, field: LayoutField, version: int) -> Any:
        if field.fields:
            return self._struct(module, getattr(module, field.kind), field.fields, version)
        rng, name = self._rng, field.name
        if field.kind == "string":
            return self._text(name)
        if field.kind == "records":
            batches = self._batches.some(rng, *rng.choice(self._known.producers))
            return batches if len(batches) <= MAX_OF_MANY_BYTES or not self._in_many else b""
        if field.kind == "bytes":
            return rng.choice((b"", b"\0\0\0\0\0\1\0\4work\xff\xff\xff\xff", rng.randbytes(60)))
        if field.kind == "bool":
            return rng.random() < 0.5
        if field.kind == "uuid":
            return rng.choice(self._known.uuids)
        if field.kind == "float64":
            return rng.choice((0.0, 1.0, -1.0, float("nan"), float("inf"), 1e300))
        return self._number(field.kind, name)

    def _text(self, name: str) -> str:
        rng = self._rng
        if rng.random() < 0.05:
            return rng.choice(TEXTS)
        if name in NAMES:
            return rng.choice(NAMES[name])
        if "transactional" in name:
            return rng.choice(IDS)
        if "group" in name or name == "key" or "coordinator" in name:
            return rng.choice(GROUPS)
        if "member" in name or "instance" in name:
            return rng.choice(self._known.members)
        if "topic" in name or name == "name":
            return rng.choice(TOPICS)
        return rng.choice(TEXTS)

    def _number(self, kind: str, name: str) -> int:
        rng = self._rng
        high = 1 << RANGES[kind]
        low = 0 if kind.startswith("u") else -high
        chance = rng.random()
        if chance < 0.05:
            return rng.choice((low, high - 1, rng.randrange(low, high)))
        if "producer_id" in name:
            return rng.choice(self._known.producers)[0]
        if name.endswith("_ms") or "time" in name:
            found = rng.choice(TIMES_MS)
        elif "bytes" in name:
            found = rng.choice((0, 1, 1_000, 1 << 20, 50 << 20))
        elif name == "acks":
            found = rng.choice((-1, 0, 1))
        else:
            found = rng.choice((-1, 0, 0, 0, 1, 1, 2, 3, 5))
        return max(low, min(high - 1, found))
