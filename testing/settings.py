"""Makes the configuration of a server for tests: Kafka's properties as keyword arguments, over defaults for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.config import Config, load
from muster.testcontrol import checks

Value = str | int | float | bool
TopicsGiven = Mapping[str, int] | Iterable[str]
"""Topics with their numbers of partitions; a name alone gets `num.partitions`."""


class Given(NamedTuple):
    """The configuration of a server, without the place of its data."""

    properties: Mapping[str, str]
    topics: TopicsGiven
    nodes: int
    listen: str

    @property
    def listen_option(self) -> str | None:
        """The value of `--listen`; None when the properties set the listeners."""
        return None if "listeners" in self.properties else self.listen

    @property
    def topic_options(self) -> list[str]:
        """The values of `--topic`, such as "orders:6"."""
        return counted(self.topics, self.properties.get("num.partitions", "1"))


DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # by default, a group would wait three seconds for more members
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        # members of the newer protocols see changes only in the answer to their next heartbeat
        "group.consumer.heartbeat.interval.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": "100",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.assignment.interval.ms": "0",
        # the log of each partition makes the start slower
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        "broker.session.timeout.ms": "1000",
    }
)
"""Properties whose values for tests differ from Kafka's defaults. A test may override them. All other properties have
Kafka's defaults.
"""


def property_name(keyword: str) -> str:
    """Kafka's name of the property that a keyword means: group_max_size is group.max.size."""
    return keyword.replace("_", ".")


def merged(properties: Mapping[str, Value] | None, keywords: Mapping[str, Value]) -> dict[str, str]:
    """All properties by Kafka's names. A keyword overrides the same property in `properties`. Raises WrongValue."""
    named = {property_name(name): value for name, value in keywords.items()}
    return {
        **DEFAULTS,
        **checks.properties("properties", properties),
        **{name: checks.property_text(name, value) for name, value in named.items()},
    }


def counted(topics: TopicsGiven, default: str) -> list[str]:
    """The number of partitions of each topic. `default`: for topics without a number. Raises WrongValue."""
    rows: Iterable[tuple[str, int | None]]
    if isinstance(topics, Mapping):
        rows = [
            (
                checks.text("the name of a topic", name),
                checks.whole(f"topics: {name}", count, least=1, most=checks.MAX_COUNT),
            )
            for name, count in topics.items()
        ]
    else:
        rows = ((name, None) for name in checks.texts("topics", topics))
    return [
        f"{name}:{count}" if count is not None else (name if ":" in name else f"{name}:{default}")
        for name, count in rows
    ]


def config_of(given: Given, directory: Path | None) -> Config:
    """Make the configuration of a server. Raises ConfigError for an unknown property, or a wrong value."""
    return load(
        overrides=[f"{name}={value}" for name, value in given.properties.items()],
        listen=given.listen_option,
        in_memory=directory is None,
        data_dir=directory,
        topics=given.topic_options,
        nodes=str(given.nodes),
    )


def ports_to_keep(config: Config, bound: Iterable[Sequence[int]]) -> list[int]:
    """The ports that listeners with port 0 have got, in the order in which the next server asks for them. `bound`: the
    ports of each node, in the order of its listeners.
    """
    return [
        port for ports in bound for listener, port in zip(config.listeners, ports, strict=False) if not listener.port
    ]
