"""Which protocols of groups with member epochs the node serves."""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.node import Node
from muster.coordinator.topics.features import level_of

PROTOCOLS: Final = "group.coordinator.rebalance.protocols"


def is_served(node: Node, protocol: str, feature: str) -> bool:
    """Whether the configuration (deprecated since Kafka 4.3) and the feature's level enable a protocol."""
    served = node.served_protocols.get(protocol)
    if served is None:  # the property cannot change while the broker runs; a new level clears the table
        protocols = node.config.value(PROTOCOLS)
        served = isinstance(protocols, tuple) and protocol in protocols
        served = node.served_protocols[protocol] = served and level_of(node.topics.state.features, feature) > 0
    return served
