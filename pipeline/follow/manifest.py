"""The manifest says what a follower has: its folders, and its position in the log. Pure.

The folders hold the staged log and the tables. The manifest is one small file that is replaced as a whole. So each step
has happened completely or not at all, even if the process dies. Every step is a function from one manifest to the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from muster.pipeline.schema import OFFSETS_TOPIC

FORMAT: Final = 6
"""The version of the file's format, and of the topics that a follower reads."""
BUCKETS: Final = 16
"""Groups are split into this many buckets by a hash of their names. The tables of a bucket are made as a whole."""
WHOLE: Final = "whole"
"""Stands in place of a bucket, for a table that is not split into buckets."""
LOG: Final = "log"
"""Stands in place of the name of a table, for the staged log."""
RUN: Final = 8
"""This many chunks of one level are merged into one chunk of the next level."""


class NotOurs(ValueError):
    """A folder has data that does not belong to what is to be followed. The message says what to do."""


class Chunk(NamedTuple):
    """A part of the staged log."""

    name: str
    level: int
    """A batch writes a chunk of level 0. A chunk of the next level has about RUN times as many rows."""
    rows: int


class Manifest(NamedTuple):
    """The whole state of a follower."""

    asked: Mapping[str, Any]
    """What the follower follows. A restart must ask for the same, or else the folder would have a mixture."""
    batch: int = -1
    """The number of the last batch that is staged."""
    position: Mapping[str, dict[int, int]] = {}
    """The end of the staged part of each partition, by topic."""
    chunks: tuple[Chunk, ...] = ()
    rows: Mapping[str, int] = {}
    """The number of staged rows, by their kind."""
    last_ms: int | None = None
    """The latest time at which a staged record was logged."""
    since_ms: int | None = None
    """Records that were logged before this time are not kept; None means that all are kept."""
    version: int = 0
    """How many times the tables were made again."""
    shown: int = 0
    """The version of the tables that readers see."""
    built: int = -1
    """The last batch that the tables include."""
    judged: int = -1
    """The last batch that the tables of lag include. It is older while groups commit between two requests."""
    dirty: Mapping[int, int] = {}
    """The buckets whose tables are older than their log, each with the last batch that has rows of the bucket."""
    tables: Mapping[str, Mapping[str, str]] = {}
    """The folders of each table, by bucket or WHOLE. A bucket without rows has no folder."""
    has_ends: bool = False
    """Whether the ends of the topics were known when the tables were made."""


def to_text(manifest: Manifest) -> str:
    """The text of the file of a manifest."""
    fields = manifest._asdict() | {"chunks": [list(one) for one in manifest.chunks], "format": FORMAT}
    return json.dumps(fields, indent=1, sort_keys=True)


def of_text(text: str) -> Manifest:
    """Read the manifest from the text of its file. Raises NotOurs if it is no manifest, or one of a newer version."""
    try:
        fields = json.loads(text)
        if fields.pop("format") != FORMAT:
            raise NotOurs("it was written by another version of Muster: follow into another folder")
        fields["chunks"] = tuple(Chunk(*one) for one in fields["chunks"])
        fields["position"] = {
            topic: {int(partition): end for partition, end in ends.items()}
            for topic, ends in fields["position"].items()
        }
        fields["dirty"] = {int(bucket): batch for bucket, batch in fields["dirty"].items()}
        return Manifest(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, NotOurs):
            raise
        raise NotOurs(f"its manifest cannot be read ({error}): follow into another folder") from error


def appended(
    before: Manifest,
    position: Mapping[str, dict[int, int]],
    chunk: Chunk | None,
    rows: Mapping[str, int],
    last_ms: int | None,
    buckets: Iterable[int],
) -> Manifest:
    """The manifest after one more batch was staged, up to `position`.

    `chunk` is None if the batch had no wanted row.
    """
    batch = before.batch + 1
    times = [one for one in (before.last_ms, last_ms) if one is not None]
    return before._replace(
        batch=batch,
        position=position,
        chunks=before.chunks if chunk is None else (*before.chunks, chunk),
        rows={kind: before.rows.get(kind, 0) + rows.get(kind, 0) for kind in sorted({*before.rows, *rows})},
        last_ms=max(times, default=None),
        dirty={**before.dirty, **dict.fromkeys(buckets, batch)},
    )


def rebuilt(
    before: Manifest,
    batch: int,
    buckets: Iterable[int],
    tables: Mapping[str, Mapping[str, str]],
    *,
    has_ends: bool = False,
    judged: int = -1,
) -> Manifest:
    """The manifest after the tables of some buckets were made from the log up to `batch`, in the folders `tables`."""
    fresh = set(buckets)
    found: dict[str, dict[str, str]] = {}
    for name in {*before.tables, *tables}:
        kept = before.tables.get(name, {})
        new = tables.get(name, {})
        old = {} if WHOLE in new else {bucket: one for bucket, one in kept.items() if bucket not in map(str, fresh)}
        found[name] = {**old, **new}
    return before._replace(
        version=before.version + 1,
        built=batch,
        dirty={bucket: touched for bucket, touched in before.dirty.items() if bucket not in fresh or touched > batch},
        tables=dict(sorted(found.items())),
        has_ends=has_ends,
        judged=judged,
    )


def to_merge(manifest: Manifest) -> tuple[Chunk, ...]:
    """The chunks to merge into one: all of the lowest level with at least RUN chunks. Empty: no such level exists."""
    for level in sorted({chunk.level for chunk in manifest.chunks}):
        found = tuple(chunk for chunk in manifest.chunks if chunk.level == level)
        if len(found) >= RUN:
            return found
    return ()


def merged(before: Manifest, old: Iterable[Chunk], new: Chunk | None, since_ms: int | None) -> Manifest:
    """The manifest after some chunks became one, and records from before `since_ms` were dropped.

    The new chunk is None if none of their records is kept.
    """
    gone = set(old)
    kept = tuple(chunk for chunk in before.chunks if chunk not in gone)
    dirty = before.dirty
    if since_ms != before.since_ms:
        # records that are now too old must leave the tables too
        dirty = {**dict.fromkeys(range(BUCKETS), before.batch), **before.dirty}
    return before._replace(chunks=kept if new is None else (new, *kept), since_ms=since_ms, dirty=dirty)


def horizon(manifest: Manifest, keep_ms: int | None) -> int | None:
    """The time from which on the log is kept.

    It moves in large steps: to drop records costs as much as to write the whole log.
    """
    if keep_ms is None or manifest.last_ms is None:
        return manifest.since_ms
    wanted_ms = manifest.last_ms - keep_ms
    since_ms = manifest.since_ms
    return wanted_ms if since_ms is None or wanted_ms - since_ms >= keep_ms // 8 else since_ms


def folders(manifest: Manifest) -> set[tuple[str, str]]:
    """All folders in use, each by its table (or LOG) and its name."""
    parts = ((name, part) for name, buckets in manifest.tables.items() for part in buckets.values())
    return {(LOG, chunk.name) for chunk in manifest.chunks} | set(parts)


def reached(manifest: Manifest) -> dict[int, int]:
    """The end of the staged part of each partition of the offsets log."""
    return manifest.position.get(OFFSETS_TOPIC, {})
