"""Definitions of Kafka's broker, topic and group properties, and how their values are read. Pure: no input or output.

Every room may import this; it imports nothing of the others. The definitions themselves stand in `table` (distilled
from Kafka's jars by tools/properties); `definition` reads values as Kafka's ConfigDef does; `topic` checks what a topic
was given; `describe` lists properties with their sources as DescribeConfigs shows them; `own` holds Muster's own.
"""

from __future__ import annotations

from muster.coordinator.properties.definition import InvalidProperty, Property, Value, text_of
from muster.coordinator.properties.lookup import (
    BROKER,
    BROKER_SYNONYMS,
    GROUP,
    GROUP_SYNONYMS,
    TOPIC,
    TOPIC_SYNONYMS,
    default_value,
)

__all__ = [
    "BROKER",
    "BROKER_SYNONYMS",
    "GROUP",
    "GROUP_SYNONYMS",
    "TOPIC",
    "TOPIC_SYNONYMS",
    "InvalidProperty",
    "Property",
    "Value",
    "default_value",
    "text_of",
]
