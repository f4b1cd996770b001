"""Data directories of several brokers of one cluster are read together."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.sources.topics import names_of_path, reach_of_path
from tests.pipeline.sources.logs import batch, write_segment

ID = "RTz9oU0XQDK-NiK8h4pObg"


def broker(root: Path, number: int, cluster: str = "one") -> Path:
    """The data directory of a broker."""
    folder = root / f"broker-{number}"
    folder.mkdir()
    (folder / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id={cluster}\n")
    return folder


def keys(root: Path) -> list[tuple[int, bytes]]:
    """Partition and key of each record that is read."""
    return [
        (row["partition"], row["key"])
        for part in read_segments(str(root))
        for row in part.to_pylist(maps_as_pydicts=None)
    ]


def test_the_partitions_of_all_brokers_are_read(tmp_path: Path) -> None:
    write_segment(broker(tmp_path, 1), batch([(b"a", b"v")], 0), 3)
    write_segment(broker(tmp_path, 2), batch([(b"b", b"v")], 0), 4)
    broker(tmp_path, 3)
    assert keys(tmp_path) == [(3, b"a"), (4, b"b")]


def test_of_several_copies_the_one_with_the_highest_end_is_read(tmp_path: Path) -> None:
    # the first copy is larger, but its broker was away when the last record was written
    write_segment(broker(tmp_path, 1), batch([(b"a", b"v" * 500)], 0) + batch([(b"b", b"v")], 1))
    write_segment(broker(tmp_path, 2), batch([(b"b", b"v")], 1) + batch([(b"c", b"v")], 2))
    assert keys(tmp_path) == [(0, b"b"), (0, b"c")]


def test_of_copies_with_the_same_end_the_least_compacted_one_is_read(tmp_path: Path) -> None:
    write_segment(broker(tmp_path, 1), batch([(b"b", b"v")], 1))
    write_segment(broker(tmp_path, 2), batch([(b"a", b"v")], 0) + batch([(b"b", b"v")], 1))
    assert keys(tmp_path) == [(0, b"a"), (0, b"b")]


def test_folders_of_different_clusters_are_not_read_together(tmp_path: Path) -> None:
    for number, cluster in enumerate(("one", "two")):
        write_segment(broker(tmp_path, number, cluster), batch([(b"a", b"v")], 0))
    with pytest.raises(NoSource, match=r"broker-0 and broker-1 in it do, and their meta\.properties do not have one"):
        keys(tmp_path)


def test_topics_of_all_brokers_have_names_and_ends(tmp_path: Path) -> None:
    for number, end in ((1, 5), (2, 7)):
        folder = broker(tmp_path, number) / "orders-0"
        folder.mkdir()
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
        (folder / f"{0:020}.log").write_bytes(batch([(b"k", b"v")], end))
    assert names_of_path(str(tmp_path)) == {ID: "orders"}
    assert reach_of_path(str(tmp_path)).reach.ends == {("orders", 0): 8}
