"""The configs of share groups, as the leaders of their partitions need them (KIP-932, KIP-1191, KIP-1222)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from muster.coordinator.properties.definition import InvalidProperty, Value
from muster.coordinator.properties.lookup import GROUP, GROUP_SYNONYMS
from muster.coordinator.properties.resource_configs import effective_group
from muster.coordinator.share.partition import Settings

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_AGE: Final = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{0,9}))?S)?)?", re.ASCII | re.IGNORECASE
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


class ShareConfig(NamedTuple):
    """The configs of one share group."""

    partition: Settings
    is_committed: bool
    """Whether only records of committed transactions are delivered (`share.isolation.level`)."""
    reset: str
    """`share.auto.offset.reset`: earliest, latest, or by_duration with an age."""
    dead_letter_topic: str
    """The topic of the dead-letter queue, or "" for none (`errors.deadletterqueue.topic.name`)."""
    copies_records: bool
    """Whether a dead letter has the key and the value of its record (`errors.deadletterqueue.copy.record.enable`)."""


def share_config(configs: Mapping[str, str], broker: Callable[[str], Value], *, has_queues: bool) -> ShareConfig:
    """The configs of a group that sets `configs`. `has_queues`: whether share.version allows dead-letter queues."""
    within, _ = effective_group(configs, broker)

    def number(name: str) -> int:
        value = within.get(name)
        return broker(GROUP_SYNONYMS[name] or name) if value is None else value  # type: ignore[return-value]  # a property with a number

    def own(name: str) -> Value:
        try:
            return GROUP[name].parse(configs[name]) if name in configs else GROUP[name].default_value
        except InvalidProperty:  # another program may have written the log with this value
            return GROUP[name].default_value

    topic = str(own("errors.deadletterqueue.topic.name") or "") if has_queues else ""
    return ShareConfig(
        Settings(
            number("share.partition.max.record.locks"),
            number("share.delivery.count.limit"),
            number("share.record.lock.duration.ms"),
            bool(own("share.renew.acknowledge.enable")),
            bool(topic),
        ),
        own("share.isolation.level") == "read_committed",
        str(own("share.auto.offset.reset")),
        topic,
        bool(own("errors.deadletterqueue.copy.record.enable")),
    )


def age_ms(reset: str) -> int:
    """The age in `by_duration:PnDTnHnMn.nS`, in milliseconds."""
    found = _AGE.fullmatch(reset)
    assert found is not None
    *whole, fraction = found.groups()
    thousandths = int((fraction or "").ljust(3, "0")[:3])
    return sum(int(number or 0) * unit for number, unit in zip(whole, _UNITS_MS, strict=True)) + thousandths
