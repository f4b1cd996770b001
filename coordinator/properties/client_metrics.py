"""The checks of a client metrics subscription's configs (KIP-714; Kafka's ClientMetricsConfigs)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from muster.coordinator.properties.definition import InvalidProperty, InvalidRequest
from muster.coordinator.properties.lookup import CLIENT_METRICS

INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"
LEAST_INTERVAL_MS: Final = 100
GREATEST_INTERVAL_MS: Final = 3_600_000

_MATCHED = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
"""The properties of clients by which a subscription selects them (ClientMetricsConfigs.ClientMatchingParams)."""


def validate(name: str, configs: Mapping[str, str], is_pattern: Callable[[str], bool]) -> Iterator[None]:
    """Raises InvalidRequest or InvalidProperty with Kafka's text, depending on how Kafka classifies the fault.

    It yields before each pattern, because `is_pattern` may take some milliseconds to compile one.
    """
    if not name:
        raise InvalidRequest("Subscription name can't be empty")
    for key in configs:
        if key not in CLIENT_METRICS:
            raise InvalidRequest(f"Unknown client metrics configuration: {key}")
    values = {key: CLIENT_METRICS[key].parse(text) for key, text in configs.items()}
    interval_ms = values.get(INTERVAL_MS)
    if isinstance(interval_ms, int) and not LEAST_INTERVAL_MS <= interval_ms <= GREATEST_INTERVAL_MS:
        raise InvalidRequest(
            f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between {LEAST_INTERVAL_MS} and "
            f"{GREATEST_INTERVAL_MS} (1 hour)"
        )
    patterns = values.get(MATCH)
    for pattern in patterns if isinstance(patterns, tuple) else ():
        yield None
        _check_pattern(pattern, is_pattern)


def _check_pattern(pattern: str, is_pattern: Callable[[str], bool]) -> None:
    """Check `name=regular expression`. Java's and RE2's expressions differ in details; every expression of RE2 is
    accepted.
    """
    parts = pattern.split("=")
    if len(parts) == 2 and parts[0].strip() in _MATCHED and parts[1].strip() and is_pattern(parts[1].strip()):
        return
    raise InvalidProperty(MATCH, pattern, f"Illegal client matching pattern: {pattern}")
