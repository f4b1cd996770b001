"""The subscriptions of client metrics (KIP-714), and what they ask one client for (Kafka: ClientMetricsManager)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from google_crc32c import value as crc32c

from muster.assignors.java_order import string_order, uuid_hash
from muster.coordinator.properties.lookup import CLIENT_METRICS
from muster.coordinator.properties.resource_configs import INTERVAL_MS, MATCH
from muster.coordinator.system.patterns import BadPattern, Pattern

METRICS: Final = "metrics"
ALL: Final = "*"
"""The metric name of a subscription that asks for all metrics."""
DEFAULT_INTERVAL_MS: Final = 300_000
MAX_ORDERED: Final = 500
MAX_ORDERED_CHARACTERS: Final = 50_000
"""More metrics stay in the order of the subscriptions: no client depends on the order, and hashing takes time."""


class ClientFacts(NamedTuple):
    """What a subscription may match. The fields have the names of ClientMetricsConfigs.ClientMatchingParams."""

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Subscription(NamedTuple):
    """The configs of one subscription. `match`: patterns by names of `ClientFacts`."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, str]


class Requested(NamedTuple):
    """What all subscriptions together ask one client for. An empty list means that the client pushes nothing."""

    subscription_id: int
    metrics: list[str]
    interval_ms: int


def read_subscription(configs: Mapping[str, str]) -> Subscription:
    """The subscription with these configs, which were checked when they were set."""
    metrics, interval_ms, match = (
        prop.parse(configs[name]) if name in configs else prop.default_value
        for name, prop in ((name, CLIENT_METRICS[name]) for name in (METRICS, INTERVAL_MS, MATCH))
    )
    patterns = (text.partition("=") for text in (match if isinstance(match, tuple) else ()))
    return Subscription(
        tuple(filter(None, metrics)) if isinstance(metrics, tuple) else (),
        interval_ms if isinstance(interval_ms, int) else DEFAULT_INTERVAL_MS,
        {name.strip(): pattern.strip() for name, _, pattern in patterns},
    )


def is_match(name: str, pattern: str, client: ClientFacts) -> bool:
    """Whether a pattern of a subscription matches this fact of a client. A pattern that RE2 refuses matches nothing."""
    try:
        return Pattern(pattern).matches(getattr(client, name, ""))
    except (BadPattern, ValueError):
        return False


def requested(instance_id: bytes, matching: Iterable[Subscription]) -> Requested:
    """What the subscriptions that match a client ask the client for. Metrics have the order of Java's HashSet."""
    names: list[str] = []
    interval_ms = DEFAULT_INTERVAL_MS
    for one in matching:
        names += one.metrics
        interval_ms = min(interval_ms, one.interval_ms)
    metrics = [ALL] if ALL in names else [*dict.fromkeys(names)]
    if len(metrics) <= MAX_ORDERED and sum(map(len, metrics)) <= MAX_ORDERED_CHARACTERS:
        metrics = string_order(metrics)
    text = f"[{', '.join(metrics)}]{interval_ms}"
    number = crc32c(text.encode()) ^ uuid_hash(instance_id)
    return Requested(number - (number >> 31 << 32), metrics, interval_ms)
