"""What a follower has: the folders of the staged log and of the tables, and the place in the stream. Pure.

It is one small file that is replaced as a whole. So each step has happened completely or not at all, whenever the
process dies. Every step is a function from one manifest to the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

FORMAT: Final = 3
"""The version of the file, and of the streams that are followed."""
BUCKETS: Final = 16
"""Groups are kept in so many parts by a hash of their names. A part is made again as a whole."""
WHOLE: Final = "whole"
"""In place of a bucket: of a table that is made again as a whole."""
LOG: Final = "log"
"""In place of a table: the staged log."""
RUN: Final = 8
"""So many chunks of one level are merged into one of the next."""


class NotOurs(ValueError):
    """A folder has other data than what is to be followed; the message says what to do."""


class Chunk(NamedTuple):
    """Some of the staged log."""

    name: str
    level: int
    """0: as a batch wrote it; each level up has about RUN times as much."""
    rows: int


class Manifest(NamedTuple):
    """The whole state of a follower."""

    asked: Mapping[str, Any]
    """What is followed: if a restart asked for anything else, the folder would have a mixture."""
    batch: int = -1
    """The last batch of the stream that is staged."""
    chunks: tuple[Chunk, ...] = ()
    rows: Mapping[str, int] = {}
    """Rows staged so far, by kind."""
    last_ms: int | None = None
    """The latest time at which any of it was logged."""
    since_ms: int | None = None
    """Older records are not kept any more; None: all are kept."""
    version: int = 0
    """How often the tables were made again."""
    shown: int = 0
    """The version that readers see."""
    built: int = -1
    """The batch that the tables include."""
    judged: int = -1
    """The batch whose commits the tables of lag have: an older one while groups commit between two requests."""
    dirty: Mapping[int, int] = {}
    """Buckets whose tables are older than their log, each with the last batch that touched it."""
    tables: Mapping[str, Mapping[str, str]] = {}
    """The folders of each table, by bucket or WHOLE; a bucket without rows has none."""
    has_ends: bool = False
    """Whether the ends of the topics were known to the tables."""


def to_text(manifest: Manifest) -> str:
    """The file of a manifest."""
    fields = manifest._asdict() | {"chunks": [list(one) for one in manifest.chunks], "format": FORMAT}
    return json.dumps(fields, indent=1, sort_keys=True)


def of_text(text: str) -> Manifest:
    """The manifest in a file. Raises NotOurs if it is no manifest, or a newer one's."""
    try:
        fields = json.loads(text)
        if fields.pop("format") != FORMAT:
            raise NotOurs("it was written by another version of Muster: follow into another folder")
        fields["chunks"] = tuple(Chunk(*one) for one in fields["chunks"])
        fields["dirty"] = {int(bucket): batch for bucket, batch in fields["dirty"].items()}
        return Manifest(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, NotOurs):
            raise
        raise NotOurs(f"its manifest cannot be read ({error}): follow into another folder") from error


def appended(
    before: Manifest,
    batch: int,
    chunk: Chunk | None,
    rows: Mapping[str, int],
    last_ms: int | None,
    buckets: Iterable[int],
) -> Manifest:
    """The manifest after a batch was staged; nothing changes if it was staged before.

    `chunk` None: it had no wanted row.
    """
    if batch <= before.batch:
        return before
    times = [one for one in (before.last_ms, last_ms) if one is not None]
    return before._replace(
        batch=batch,
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
    """The manifest after the tables of some buckets were made from the log up to `batch`, in these folders."""
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
    """The chunks to merge into one: RUN or more of the lowest level with so many. It is empty if nothing is due."""
    for level in sorted({chunk.level for chunk in manifest.chunks}):
        found = tuple(chunk for chunk in manifest.chunks if chunk.level == level)
        if len(found) >= RUN:
            return found
    return ()


def merged(before: Manifest, old: Iterable[Chunk], new: Chunk | None, since_ms: int | None) -> Manifest:
    """The manifest after some chunks became one, and records from before `since_ms` were dropped.

    The new chunk is None if nothing in them is kept.
    """
    gone = set(old)
    kept = tuple(chunk for chunk in before.chunks if chunk not in gone)
    dirty = before.dirty
    if since_ms != before.since_ms:
        # records that became older than that must leave the tables, too
        dirty = {**dict.fromkeys(range(BUCKETS), before.batch), **before.dirty}
    return before._replace(chunks=kept if new is None else (new, *kept), since_ms=since_ms, dirty=dirty)


def horizon(manifest: Manifest, keep_ms: int | None) -> int | None:
    """The time from which the log is kept. It moves in large steps: a cut costs as much as the whole log."""
    if keep_ms is None or manifest.last_ms is None:
        return manifest.since_ms
    wanted_ms = manifest.last_ms - keep_ms
    since_ms = manifest.since_ms
    return wanted_ms if since_ms is None or wanted_ms - since_ms >= keep_ms // 8 else since_ms


def folders(manifest: Manifest) -> set[tuple[str, str]]:
    """All folders in use: the table (or LOG), and the name."""
    parts = ((name, part) for name, buckets in manifest.tables.items() for part in buckets.values())
    return {(LOG, chunk.name) for chunk in manifest.chunks} | set(parts)
