"""Which rows of a log are asked for: by partition, time and group. It is used three times: to leave out partitions,
segments and batches without such a row; to leave out records before they are decoded; and, exactly, on the rows.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import reduce
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from muster.protocol.hashing import group_partition

_SPECIAL: Final = re.compile(r"[*?\[]")


class Asked(NamedTuple):
    """Everything that is given has to hold for a row."""

    partitions: frozenset[int] | None = None
    """Of the log; None: all."""
    since_ms: int | None = None
    """Logged then or later."""
    until_ms: int | None = None
    """Logged before."""
    groups: tuple[str, ...] = ()
    """Patterns of which one has to match the whole name; empty: any group, or none."""

    @property
    def names(self) -> frozenset[str] | None:
        """The only groups that can match; None: that is not known before names are seen."""
        if not self.groups or any(map(_SPECIAL.search, self.groups)):
            return None
        return frozenset(self.groups)

    def has_partition(self, partition: int, count: int | None = None) -> bool:
        """Whether a partition of the log may have such rows. `count`: how many there are, if that is surely known."""
        if self.partitions is not None and partition not in self.partitions:
            return False
        names = self.names
        return names is None or count is None or any(group_partition(name, count) == partition for name in names)

    def of_raw(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Such rows of schema.RAW; records of groups that are told by name are found by their undecoded keys."""
        masks = []
        if self.partitions is not None:
            masks.append(pc.is_in(rows.column("partition"), pa.array(sorted(self.partitions), pa.int32())))
        if self.since_ms is not None:
            masks.append(pc.greater_equal(rows.column("timestamp_ms"), self.since_ms))
        if self.until_ms is not None:
            masks.append(pc.less(rows.column("timestamp_ms"), self.until_ms))
        if self.names is not None:
            keys = rows.column("key")
            masks.append(reduce(pc.or_, (_is_key_of(name, keys) for name in sorted(self.names))))
        # what is not known (damage has no time) is not what was asked for
        return rows.filter(reduce(pc.and_kleene, masks)) if masks else rows

    def of_decoded(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Of decoded rows that are left those of the groups."""
        if not self.groups:
            return rows
        matches = re.compile("|".join(map(translate, self.groups))).match
        column = rows.column("group")
        found = [name for name in pc.unique(column).to_pylist() if name is not None and matches(name)]
        return rows.filter(pc.is_in(column, pa.array(found, column.type)))


EVERYTHING: Final = Asked()


def _is_key_of(group: str, keys: pa.Array) -> pa.Array:
    """A key is the number of its type (int16), then the group: its length (int16) and UTF-8."""
    name = group.encode()
    start = len(name).to_bytes(2, "big") + name
    return pc.equal(pc.binary_slice(keys, 2, 2 + len(start)), pa.scalar(start, keys.type))
