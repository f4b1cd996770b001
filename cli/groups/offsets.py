"""`muster groups offsets`: the committed offsets of groups, and their lag."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from muster.cli.groups.committed import fetch_committed
from muster.cli.groups.described import Description, NoGroup
from muster.cli.groups.describing import find_group
from muster.cli.groups.listing import all_groups
from muster.cli.output import say
from muster.cli.table import print_json, print_table
from muster.client.connection import AskingFailed
from muster.client.kafka_client import Cluster
from muster.client.list_offsets import Partition, end_offsets

_HEAD: Final = ("GROUP", "TOPIC", "PARTITION", "OFFSET", "END", "LAG", "METADATA", "MEMBER")


class Row(NamedTuple):
    """One partition of a group. `offset`: the committed one; for a share group, its start offset. `lag` None: it
    follows from the end of the partition.
    """

    group: str
    topic: str
    partition: int
    offset: int
    lag: int | None
    metadata: str
    member: str | None


def offsets(cluster: Cluster, group_ids: Sequence[str] | None, *, form: str) -> int:
    """Print every committed offset of these groups with end, lag and owner; `group_ids` None: of all groups. `form`:
    text, json or csv. Exit status 1 when one of the groups has no committed offset.
    """
    names = [one.group_id for one in all_groups(cluster)] if group_ids is None else list(dict.fromkeys(group_ids))
    rows: list[Row] = []
    status = 0
    for name in names:
        try:
            found = _rows(cluster, name)
            if not found and group_ids is not None:
                raise AskingFailed(f"group {name} has no committed offsets")
        except AskingFailed as failure:
            say(f"muster groups offsets: {failure}", sys.stderr)
            status = 1
            continue
        rows += found
    _print(cluster, rows, form, with_group=len(names) > 1 or group_ids is None)
    if not rows and not status:
        say("no group has committed offsets" if names else "there are no groups", sys.stderr)
    return status


def _rows(cluster: Cluster, group_id: str) -> list[Row]:
    """The committed offsets of a group, by topic and partition. Raises AskingFailed."""
    committed = fetch_committed(cluster, group_id)
    try:
        found = find_group(cluster, group_id)
        if found is None and not committed:
            raise NoGroup(group_id)
    except NoGroup:
        raise
    except AskingFailed:  # a user may be allowed to read offsets, and not to see members
        found = None
    if found is not None and found.type == "share" and not committed:
        # imported here: few clusters have such groups
        from muster.cli.groups.other_types import share_offsets

        starts = share_offsets(cluster, group_id)
        if not starts:
            raise AskingFailed(
                f"share group {group_id} has no start offsets yet: its members have acknowledged nothing"
            )
        return [Row(group_id, *one, start, lag, "", None) for one, (start, lag) in starts.items()]
    owners = {} if found is None else _owners(found)
    return [Row(group_id, *one, it.offset, None, it.metadata, owners.get(one)) for one, it in committed.items()]


def _owners(found: Description) -> Mapping[Partition, str]:
    if found.type == "streams":  # its members have tasks
        return {}
    return {
        (topic, partition): one.instance or one.member
        for one in found.members
        for topic, partitions in (one.assignment or {}).items()
        for partition in partitions
    }


def _print(cluster: Cluster, rows: Iterable[Row], form: str, *, with_group: bool) -> None:
    found = list(rows)
    if form == "csv":
        from muster.cli.groups.resetting import say_csv

        say_csv([(one.group, (one.topic, one.partition), one.offset) for one in found], with_group=with_group)
        return
    ends = end_offsets(cluster, {(one.topic, one.partition) for one in found})
    cells = [_cells(one, ends.get((one.topic, one.partition))) for one in found]
    if form == "json":
        names = [one.lower() for one in _HEAD]
        for row in cells:
            print_json(dict(zip(names, row, strict=True)))
    elif cells:
        first = 0 if with_group else 1
        print_table(_HEAD[first:], [row[first:] for row in cells])


def _cells(row: Row, end: int | None) -> tuple[object, ...]:
    lag = row.lag
    if lag is None and end is not None:
        lag = max(end - row.offset, 0)
    return (*row[:4], end, lag, row.metadata, row.member)
