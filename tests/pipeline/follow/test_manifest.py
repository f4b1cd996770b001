from __future__ import annotations

import pytest

from muster.pipeline.follow.manifest import (
    BUCKETS,
    LOG,
    RUN,
    WHOLE,
    Chunk,
    Manifest,
    NotOurs,
    appended,
    folders,
    horizon,
    merged,
    of_text,
    reached,
    rebuilt,
    to_merge,
    to_text,
)

EMPTY = Manifest({"groups": []})


def chunk(number: int, level: int = 0) -> Chunk:
    return Chunk(f"batch={number}", level, 10)


def with_batches(count: int) -> Manifest:
    manifest = EMPTY
    for number in range(count):
        ends = {"__consumer_offsets": {3: 10 * number}}
        manifest = appended(manifest, ends, chunk(number), {"commit": 10}, 1_000 * number, [number % 3])
    return manifest


def test_a_batch_is_appended_with_the_position_behind_it() -> None:
    position = {"__consumer_offsets": {0: 10}}
    once = appended(EMPTY, position, chunk(0), {"commit": 7, "event": 3}, 5_000, [1, 4])
    assert once == EMPTY._replace(
        batch=0, position=position, chunks=(chunk(0),), rows={"commit": 7, "event": 3}, last_ms=5_000,
        dirty={1: 0, 4: 0},
    )  # fmt: skip
    assert (reached(EMPTY), reached(once)) == ({}, {0: 10})
    twice = appended(once, {}, None, {}, None, [])
    assert (twice.batch, twice.chunks, twice.last_ms, twice.rows) == (1, once.chunks, 5_000, once.rows)
    later = appended(twice, {}, chunk(2), {"commit": 1}, 4_000, [4])
    assert (later.chunks, later.rows, later.last_ms) == ((chunk(0), chunk(2)), {"commit": 8, "event": 3}, 5_000)


def test_batches_staged_during_a_rebuild_leave_the_tables_outdated() -> None:
    before = with_batches(3)
    meanwhile = appended(before, {}, chunk(3), {"commit": 1}, 9_000, [1])
    after = rebuilt(meanwhile, before.batch, [0, 1, 2], {"moves": {"0": "v=1/bucket=0"}}, has_ends=True)
    assert after.dirty == {1: 3}
    assert (after.version, after.built, after.batch, after.has_ends) == (1, 2, 3, True)


def test_only_rebuilt_buckets_are_replaced() -> None:
    first = rebuilt(EMPTY, 0, range(BUCKETS), {"moves": {"0": "a", "1": "b"}, "lag": {WHOLE: "c"}}, has_ends=False)
    second = rebuilt(first, 1, [1, 2], {"moves": {"2": "d"}, "lag": {WHOLE: "e"}}, has_ends=False)
    assert second.tables == {"lag": {WHOLE: "e"}, "moves": {"0": "a", "2": "d"}}
    assert folders(first) - folders(second) == {("moves", "b"), ("lag", "c")}


def test_many_small_chunks_are_merged() -> None:
    manifest = with_batches(RUN - 1)
    assert to_merge(manifest) == ()
    manifest = with_batches(RUN)
    due = to_merge(manifest)
    assert due == manifest.chunks
    later = appended(manifest, {}, chunk(RUN), {"commit": 1}, 1, [0])
    done = merged(later, due, Chunk("merged=1", 1, 80), None)
    assert done.chunks == (Chunk("merged=1", 1, 80), chunk(RUN))
    assert done.dirty == later.dirty
    assert folders(done) == {(LOG, "merged=1"), (LOG, f"batch={RUN}")}
    assert to_merge(done) == ()
    assert to_merge(done._replace(chunks=tuple(chunk(number, 1) for number in range(RUN)))) != ()


def test_the_staged_log_is_truncated_seldom() -> None:
    manifest = with_batches(3)._replace(last_ms=100_000)
    assert horizon(manifest, None) is None
    assert horizon(EMPTY, 80_000) is None
    assert horizon(manifest, 80_000) == 20_000
    cut = merged(manifest._replace(dirty={}), manifest.chunks, None, 20_000)
    assert cut.chunks == ()
    assert set(cut.dirty) == set(range(BUCKETS))
    assert horizon(cut._replace(last_ms=109_999), 80_000) == 20_000
    assert horizon(cut._replace(last_ms=110_000), 80_000) == 30_000


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = rebuilt(with_batches(4), 3, [0], {"moves": {"1": "a"}}, has_ends=True)
    assert manifest.dirty
    assert of_text(to_text(manifest)) == manifest


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"format": 6, "chunks": [[1]]}', "cannot be read"),
        (to_text(EMPTY).replace('"format": 6', '"format": 5'), "another version of Muster"),
    ],
)
def test_a_malformed_manifest_is_refused(text: str, why: str) -> None:
    with pytest.raises(NotOurs, match=why):
        of_text(text)
