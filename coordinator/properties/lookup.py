"""The properties by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from muster.coordinator.properties.definition import Property
from muster.coordinator.properties.own import OWN
from muster.coordinator.properties.table import BROKER as BROKER_ROWS
from muster.coordinator.properties.table import BROKER_DYNAMIC_ONLY as DYNAMIC_ONLY_ROWS
from muster.coordinator.properties.table import CLIENT_METRICS as CLIENT_METRICS_ROWS
from muster.coordinator.properties.table import GROUP as GROUP_ROWS
from muster.coordinator.properties.table import TOPIC as TOPIC_ROWS
from muster.coordinator.properties.table import Row


def _by_name(rows: Iterable[Row]) -> Mapping[str, Property]:
    return MappingProxyType({row[0]: Property(*row) for row in rows})


BROKER: Mapping[str, Property] = _by_name(BROKER_ROWS)
"""Kafka's broker properties, by name, in the order of names."""
DYNAMIC_ONLY: Mapping[str, Property] = _by_name(DYNAMIC_ONLY_ROWS)
"""Those that can only be set while the broker runs, and that no file may name."""
TOPIC: Mapping[str, Property] = _by_name(TOPIC_ROWS)
"""Kafka's topic properties."""
GROUP: Mapping[str, Property] = _by_name(GROUP_ROWS)
"""Kafka's group properties (KIP-848's dynamic group configuration)."""
CLIENT_METRICS: Mapping[str, Property] = _by_name(CLIENT_METRICS_ROWS)
"""Kafka's properties of client metrics subscriptions (KIP-714)."""
MUSTER: Mapping[str, Property] = _by_name(OWN)
"""Muster's own."""
