"""The entities and values of quotas: the checks of Kafka's ClientQuotaControlManager, in its words and order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from muster.protocol.hashing import java_string_hash

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

Entity = tuple[tuple[str, str | None], ...]
"""Pairs (type, name), sorted by type. The name None stands for Kafka's default: all entities without an own quota."""

_LONG: Final = "LONG", 2.0**63
_INT: Final = "INT", float(2**31 - 1)
_KEYS_OF_CLIENTS: Final[Mapping[str, tuple[str, float] | None]] = MappingProxyType(
    {
        PRODUCER_BYTE_RATE: _LONG,
        CONSUMER_BYTE_RATE: _LONG,
        REQUEST_PERCENTAGE: None,
        CONTROLLER_MUTATION_RATE: None,
    }
)
"""Quotas of users and client ids -> the type of a whole number and its largest value; None for any number."""
_KEYS_OF_IPS: Final[Mapping[str, tuple[str, float] | None]] = MappingProxyType({CONNECTION_CREATION_RATE: _INT})
_ALMOST_WHOLE: Final = 1e-6
MAX_HASHED: Final = 100
"""The most characters of a text that gets Java's order. Kafka's names are shorter, but a request may have megabytes."""
EMPTY: Final = "Invalid empty client quota entity"


def entity_of(names: Mapping[str, str | None]) -> Entity:
    """Return names by type as an entity."""
    return tuple(sorted(names.items(), key=lambda row: row[0]))


def in_javas_order(texts: Iterable[str], most: int) -> list[str]:
    """Return different texts in the order of a Java HashMap for `most` texts. Texts over MAX_HASHED are first."""
    given = list(texts)
    size = _buckets(len(given), most)
    return sorted(given, key=lambda text: _spread(text) & (size - 1))


def bucket_of(entity: Entity, entities: int) -> int:
    """Return the bucket of this entity in a Java HashMap of `entities` entities, whose iteration is by bucket."""
    code = hash_of(entity) & 0xFFFF_FFFF
    return (code ^ (code >> 16)) & (_buckets(entities, 1) - 1)


def _buckets(count: int, most: int) -> int:
    size = 1
    while size < most or count > size * 0.75:
        size *= 2
    return size


def _spread(text: str) -> int:
    if len(text) > MAX_HASHED:
        return 0
    code = java_string_hash(text) & 0xFFFF_FFFF
    return code ^ (code >> 16)


def hash_of(entity: Entity) -> int:
    """Return ClientQuotaEntity.hashCode, for the order of Java's tables. Names over MAX_HASHED count as empty."""
    parts = [_hash(kind) ^ (0 if name is None else _hash(name)) for kind, name in entity]
    return 31 + sum(parts)


def _hash(text: str) -> int:
    return 0 if len(text) > MAX_HASHED else java_string_hash(text)


def shown(names: Mapping[str, str | None]) -> str:
    """Return an entity as Java shows it in messages."""
    rows = ", ".join(f"{kind}={_or_null(names[kind])}" for kind in in_javas_order(names, len(names)))
    return f"ClientQuotaEntity(entries={{{rows}}})"


def _or_null(name: str | None) -> str:
    return "null" if name is None else name


def fault_of_entity(names: Mapping[str, str | None]) -> str | None:
    """Return the fault of an entity, without resolving its address; None for a valid entity."""
    if not names:
        return EMPTY
    for kind in in_javas_order(names, len(names)):
        if kind not in TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if names[kind] == "":
            return f"Empty {kind} not supported"
    if IP in names and len(names) > 1:
        # the missing space is Kafka's
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    return None


def unresolvable(address: str) -> str:
    """Kafka's message for a host that does not exist."""
    return f"{address} is not a valid IP or resolvable host."


def fault_of_quota(names: Mapping[str, str | None], key: str, value: float) -> str | None:
    """Return the fault of a quota for a valid entity; None for a valid quota."""
    keys = _KEYS_OF_IPS if IP in names else _KEYS_OF_CLIENTS
    if key not in keys:
        return f"Invalid configuration key {key}"
    if value <= 0.0:
        return f"Quota {key} must be greater than 0"
    whole = keys[key]
    if whole is None:
        return None
    kind, most = whole
    if value > most:
        return f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}."
    if math.fmod(value, 1.0) > _ALMOST_WHOLE:
        return f"{key} cannot be a fractional value."
    return None


def is_same(one: float | None, other: float | None) -> bool:
    """Compare as Java compares boxed doubles: NaN equals itself."""
    return one == other or (one is not None and other is not None and math.isnan(one) and math.isnan(other))


class EntityFilter:
    """The entities that a client requests: by name, by the default, or by type alone (ClientQuotasImage)."""

    __slots__ = ("_exact", "_is_strict", "_types")

    def __init__(self, exact: Mapping[str, str | None], types: Sequence[str], *, is_strict: bool) -> None:
        self._exact = exact
        self._types = types
        self._is_strict = is_strict

    def selects(self, entity: Entity) -> bool:
        """Whether an entity is requested. A strict filter names all types of the entity."""
        if self._is_strict and len(entity) != len(self._exact) + len(self._types):
            return False
        names = dict(entity)
        return all(kind in names and names[kind] == name for kind, name in self._exact.items()) and all(
            kind in names for kind in self._types
        )
