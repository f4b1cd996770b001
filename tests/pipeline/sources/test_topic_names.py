from __future__ import annotations

from pathlib import Path

import pytest

from muster.pipeline.sources import live_topics
from muster.pipeline.sources.cluster import ClusterError
from muster.pipeline.sources.live_topics import names_of_cluster
from muster.pipeline.sources.topics import names_of_path
from tests.pipeline.live import PARTITIONS, TOPIC, Live

ID = "RTz9oU0XQDK-NiK8h4pObg"


def folder(root: Path, name: str, text: str | None) -> None:
    (root / name).mkdir()
    if text is not None:
        (root / name / "partition.metadata").write_text(text)


def test_topic_names_are_read_from_a_data_directory(tmp_path: Path) -> None:
    folder(tmp_path, "orders-1-0", f"version: 0\ntopic_id: {ID}")
    folder(tmp_path, "orders-1-1", f"version: 0\ntopic_id: {ID}")
    folder(tmp_path, "copied-0", None)
    folder(tmp_path, "torn-0", "version: 0\ntopic_id: RTz9")
    folder(tmp_path, "no-partition", f"version: 0\ntopic_id: {ID}")
    assert names_of_path(str(tmp_path)) == {ID: "orders-1"}
    assert names_of_path(str(tmp_path / "nothing")) == {}


def test_topic_names_are_read_from_a_live_cluster(live: Live) -> None:
    names = names_of_cluster(live.client)
    assert TOPIC in names.values()
    assert len(names) == len(set(names.values())) >= 1
    assert all(len(topic_id) == len(ID) for topic_id in names)
    assert PARTITIONS > 1  # one name for all of them


def test_an_unreachable_cluster_is_reported_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_topics, "ANSWER_TIMEOUT_S", 1.0)
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:1"):
        names_of_cluster({"bootstrap.servers": "127.0.0.1:1"})
