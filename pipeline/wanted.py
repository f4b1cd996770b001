"""The part of a log that is analysed, as a filter for rows of Spark and Arrow rows in workers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import translate
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.episodes.silence import STEP_MS
from muster.pipeline.frames import Column, DataFrame, F, Window
from muster.pipeline.gather import batch_of
from muster.pipeline.schema import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    DECODED,
    OFFSET_COMMIT,
    OTHER_COMMIT,
    SHARE_GROUP,
    STREAMS_GROUP,
    table_columns,
)


class Wanted(NamedTuple):
    """Records logged from `since_ms` on and before `until_ms`, of groups that match a pattern."""

    since_ms: int | None = None
    until_ms: int | None = None
    groups: tuple[str, ...] = ()

    def in_words(self) -> str:
        """The filter in words."""
        groups = "groups " + " or ".join(map(repr, self.groups)) if self.groups else "groups of any name"
        since = "" if self.since_ms is None else f", logged from {_moment(self.since_ms)} on"
        return groups + since + ("" if self.until_ms is None else f", logged before {_moment(self.until_ms)}")


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


_BEFORE_MS: Final = 3_600_000
"""Other commits are kept from this long before the wanted time on."""

ALL: Final = Wanted()
"""No filter: everything is wanted."""

_OF_STATES: Final = (CLASSIC_GROUP, CONSUMER_GROUP, SHARE_GROUP, STREAMS_GROUP)
"""The kinds of rows with the state of a group. Of each key, the last record before the wanted time is wanted too."""


def is_wanted(wanted: Wanted, when: Column, *, of_any_group: Column | None = None) -> Column:
    """Whether a row is wanted. If `of_any_group` is true for the row, its group does not matter."""
    return _asked_for(wanted, when, F.lit(False), F.lit(False) if of_any_group is None else of_any_group)


def is_kept(wanted: Wanted) -> Column:
    """Whether a decoded row is wanted, is an older record of a group's state, or belongs to no readable group."""
    return _asked_for(wanted, F.col("log_timestamp_ms"), F.col("kind").isin(*_OF_STATES), F.col("group").isNull())


def _asked_for(wanted: Wanted, when: Column, even_if_old: Column, of_any_group: Column) -> Column:
    keep = F.lit(True)
    if wanted.until_ms is not None:
        keep &= when.isNull() | (when < wanted.until_ms)
    if wanted.since_ms is not None:
        keep &= when.isNull() | (when >= wanted.since_ms) | even_if_old
    if wanted.groups:
        keep &= of_any_group | F.coalesce(F.col("group").rlike(pattern_of(wanted.groups)), F.lit(False))
    return keep


def batch_filter(wanted: Wanted) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """The filter `is_kept` for batches of decoded rows: a function that returns the rows of a batch that are kept.

    It also returns rows OTHER_COMMIT, because the commits of all groups show when nobody could commit.
    """
    if wanted == ALL:
        return lambda batch: batch
    matches = re.compile("|".join(map(translate, wanted.groups))).match

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        when = batch.column("log_timestamp_ms")
        mask = pa.repeat(True, batch.num_rows)
        if wanted.until_ms is not None:
            mask = pc.and_(mask, pc.fill_null(pc.less(when, wanted.until_ms), True))
        if wanted.since_ms is not None:
            is_new = pc.fill_null(pc.greater_equal(when, wanted.since_ms), True)
            mask = pc.and_(mask, pc.or_(is_new, pc.is_in(batch.column("kind"), pa.array(_OF_STATES))))
        if wanted.groups:
            groups = batch.column("group")
            known = [one for one in pc.unique(groups).to_pylist() if one is None or matches(one)]
            mask = pc.and_(mask, pc.is_in(groups, pa.array(known, groups.type)))
        others = _others(batch.filter(pc.invert(mask)), wanted)
        kept = batch.filter(mask)
        if not others.num_rows:
            return kept
        return pa.Table.from_batches([kept, others]).combine_chunks().to_batches()[0]

    return keep


def _others(batch: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    """The commits of these rows as OTHER_COMMIT rows: one for each group and step of time."""
    when = batch.column("log_timestamp_ms")
    mask = pc.and_(pc.equal(batch.column("kind"), OFFSET_COMMIT), pc.is_valid(when))
    mask = pc.and_(mask, pc.is_valid(batch.column("group")))
    if wanted.since_ms is not None:
        mask = pc.and_(mask, pc.fill_null(pc.greater_equal(when, wanted.since_ms - _BEFORE_MS), False))
    if wanted.until_ms is not None:
        mask = pc.and_(mask, pc.fill_null(pc.less(when, wanted.until_ms), False))
    some = batch.filter(mask)
    group = some.column("group").dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    step = some.column("log_timestamp_ms").to_numpy(zero_copy_only=False) // STEP_MS
    _, first = np.unique(np.stack((group, step)), axis=1, return_index=True)
    found = some.take(pa.array(np.sort(first)))
    kept = {name: found.column(name) for name in table_columns(OTHER_COMMIT)}
    return batch_of(DECODED, found.num_rows, {**kept, "kind": pa.repeat(OTHER_COMMIT, found.num_rows)})


def pattern_of(groups: Sequence[str]) -> str:
    """A Java regular expression that matches a whole name if one of the patterns (with *, ? and [...]) matches it."""
    # Java has other marks for the start and the end of a text
    inner = (re.sub(r"\\[zZ]$", "", translate(group)) for group in groups)
    return f"^(?:{'|'.join(inner)})$"


def with_last_before(staged: DataFrame, wanted: Wanted) -> DataFrame:
    """The rows without those from before the wanted time, but with the last record of each group's key.

    That record has the members.
    """
    if wanted.since_ms is None:
        return staged
    is_state = F.col("kind").isin(*_OF_STATES)
    is_old = F.col("log_timestamp_ms") < wanted.since_ms
    latest_first = Window.partitionBy("group", "key_type", "key_json").orderBy(F.desc("log_offset"))
    old = staged.where(is_state & is_old).withColumn("age", F.row_number().over(latest_first))
    return staged.where(~is_state | ~is_old).unionByName(old.where(F.col("age") == 1).drop("age"))
