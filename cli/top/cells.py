"""What the tables of `muster top` show: groups, members and offsets as cells, and their orders. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from muster.coordinator.http.described_groups import Description, Member, partition_words
from muster.coordinator.http.live_groups import ORDERS, LiveGroup
from muster.pipeline.wording import NOT_KNOWN, duration, number, plural

GROUPS: Final = ("GROUP", "TYPE", "STATE", "MEMBERS", "LAG", "READ/S", "WRITTEN/S", "CATCHES UP IN", "LAG BEFORE")
MEMBERS: Final = ("MEMBER", "CLIENT", "HOST", "PARTITIONS", "EPOCH", "OWNS")
OFFSETS: Final = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "OWNER")
BARS: Final = "▁▂▃▄▅▆▇█"
SPARKS: Final = 20
"""The width of a sparkline."""
BAD: Final = "bold red"
UNUSUAL: Final = "yellow"
STYLES: Final[Mapping[int, str]] = {3: BAD, 2: UNUSUAL, 1: UNUSUAL, 0: ""}
"""The style of a group, by its trouble."""
BY: Final[Mapping[str, str]] = {"w": "worst", "l": "lag", "n": "name", "m": "members"}
"""The key that sorts the groups, and the order."""


def group_cells(one: LiveGroup) -> tuple[str, ...]:
    """The row of a group."""
    rates, lag = one.rates, one.lag
    wait_s = rates.catch_up_s(lag)
    wait = "" if not lag else NOT_KNOWN if wait_s is None else duration(1000 * wait_s)
    return (
        *(one.group, one.kind, one.state, number(one.members), number(lag)),
        *(_rate(rates.committed_s), _rate(rates.written_s), wait, sparkline(one.lags)),
    )


def _rate(value: float | None) -> str:
    return NOT_KNOWN if value is None else number(round(value, 1))


def sparkline(values: Sequence[int]) -> str:
    """The last values as bars. Without any lag the line is empty."""
    last = values[-SPARKS:]
    most = max(last, default=0)
    if not most:
        return ""
    return "".join(BARS[min(value * len(BARS) // (most + 1), len(BARS) - 1)] if value else " " for value in last)


def ordered(groups: Iterable[LiveGroup], order: str, text: str, *, only_trouble: bool) -> list[LiveGroup]:
    """The groups with this text in their names, in an order of `ORDERS`."""
    wanted = (one for one in groups if text in one.group and (one.trouble or not only_trouble))
    return sorted(wanted, key=ORDERS[order])


def member_cells(found: Description) -> list[tuple[str, ...]]:
    """The rows of the members, in the order of their names."""
    return [
        (
            *(one.instance or one.member, one.client_id, one.host.lstrip("/")),
            NOT_KNOWN if one.assignment is None else number(sum(map(len, one.partitions.values()))),
            "" if one.epoch is None else str(one.epoch),
            "" if one.assignment is None else _owned(one),
        )
        for one in sorted(found.members, key=lambda one: (one.client_id, one.member))
    ]


def _owned(one: Member) -> str:
    """Partitions by topic, or the tasks of a Streams member with the copies that it keeps."""
    kinds = (("", one.assignment), ("standby", one.standby), ("warm-up", one.warmup))
    return " ".join(f"{kind} {partition_words(has)}".strip() for kind, has in kinds if has)


def offset_cells(
    offsets: Iterable[tuple[str, int, int, int | None]], found: Description | None
) -> list[tuple[str, ...]]:
    """The rows of the committed offsets (topic, partition, offset, end), the greatest lag first."""
    owners = {
        (topic, index): one.client_id
        for one in (() if found is None else found.members)
        for topic, rows in one.partitions.items()
        for index in rows
    }
    rows = sorted(offsets, key=lambda row: (-_lag(row[2], row[3]), row[0], row[1]))
    return [
        (topic, str(index), number(offset), NOT_KNOWN if end is None else number(end),
         NOT_KNOWN if end is None else number(_lag(offset, end)), owners.get((topic, index), ""))
        for topic, index, offset, end in rows
    ]  # fmt: skip


def _lag(offset: int, end: int | None) -> int:
    return 0 if end is None else max(end - offset, 0)


def summary(groups: Iterable[LiveGroup], brokers: int) -> str:
    """The line above the groups."""
    some = list(groups)
    bad = sum(one.trouble > 0 for one in some)
    members, lag = sum(one.members for one in some), sum(one.lag for one in some)
    known = (plural(brokers, "broker"), f"{plural(len(some), 'group')}, {bad:,} in trouble", plural(members, "member"))
    return "  ".join((*known, f"{number(lag)} records behind"))
