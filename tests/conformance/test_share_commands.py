"""`muster groups describe` and `record`, and `muster.testing`, show a share group of Kafka as one of Muster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from muster.cli import main
from muster.testing import Muster
from muster.testing.against import Against, OnlyMuster
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

PROPERTIES: Final = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.assignment.interval.ms": "0",
}
KAFKAS: Final = {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}
Capture = pytest.CaptureFixture[str]


def server_of(kind: str, tmp_path: Path) -> tuple[ServerProcess, Path]:
    """A server, and its data directory."""
    if kind == "kafka":
        return KafkaServer(tmp_path / "kafka", {**PROPERTIES, **KAFKAS}), tmp_path / "kafka" / "data" / "logs"
    return MusterServer(tmp_path / "muster", PROPERTIES), tmp_path / "muster" / "data"


@contextmanager
def working(bootstrap: str) -> Iterator[ShareConsumer]:
    settings = {"group.id": "g", "client.id": "w", "share.acknowledgement.mode": "explicit"}
    worker = ShareConsumer({"bootstrap.servers": bootstrap, **settings})
    worker.subscribe(["t"])
    try:
        yield worker
    finally:
        worker.close()


def work(worker: ShareConsumer, count: int) -> None:
    """Accept records, until so many are done. The record `v2` is released twice, and `v3` is rejected."""
    done = 0
    while done < count:
        for one in worker.poll(0.5):
            if one.error() is not None:
                continue
            kind = AcknowledgeType.ACCEPT
            if one.value() == b"v2" and one.delivery_count() < 3:
                kind = AcknowledgeType.RELEASE
            elif one.value() == b"v3":
                kind = AcknowledgeType.REJECT
            worker.acknowledge(one, kind)
            done += kind is not AcknowledgeType.RELEASE
        worker.commit_sync(20)


def command(capsys: Capture, *words: str) -> Any:
    capsys.readouterr()
    assert main(["groups", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["kafka", "muster"])
def test_what_became_of_records_is_the_same_on_both(kind: str, tmp_path: Path, capsys: Capture) -> None:
    server, directory = server_of(kind, tmp_path)
    server.start()
    at = ("--bootstrap-server", server.bootstrap)
    try:
        with Muster(runner=Against(server.bootstrap)) as cluster, working(server.bootstrap) as worker:
            group, topic = cluster.group("g"), cluster.topic("t")
            topic.create(1)
            group.configure(share_auto_offset_reset="earliest", share_delivery_count_limit=3)
            topic.produce(*(f"v{number}" for number in range(6)))
            work(worker, 6)
            view = group.wait_acknowledged("t")
            assert (view.kind, view.records["t"][0].lag, len(view.members)) == ("share", 0, 1)
            with pytest.raises(OnlyMuster):
                group.wait_acquired(1)
            topic.produce("waits", "waits")
            held = [one for one in worker.poll(10.0) if one.error() is None]
            worker.acknowledge(held[0], AcknowledgeType.RELEASE)
            for one in held[1:]:
                worker.acknowledge(one, AcknowledgeType.ACCEPT)
            worker.commit_sync(20)
            records = json.loads(command(capsys, "describe", "g", "--json", *at))["records"]
            lag = 3 - len(held)
            assert (records["lag"], records["retried"]) == (lag, 1)
            # the worker may have got the released record again already
            assert records["in_flight"] in ((None,) if kind == "kafka" else (0, 1))
            assert records["partitions"][0]["oldest_offset"] == 6
            assert 0 < records["oldest_age_ms"] < 120_000
        lives = {}
        for offset in ("2", "3", "6"):
            life = json.loads(command(capsys, "record", "g", "t-0", offset, "--json", *at))
            lives[offset] = [(one["state"], one["deliveries"]) for one in life["moments"]]
        assert lives["2"][-3:] in (
            [("AVAILABLE", 1), ("AVAILABLE", 2), ("ACKNOWLEDGED", 3)],
            [("AVAILABLE", 2), ("ACKNOWLEDGED", 3), ("PASSED", 0)],
        )
        assert ("ARCHIVED", 1) in lives["3"]
        assert ("AVAILABLE", 1) in lives["6"]
    finally:
        server.stop()
    for offset, expected in lives.items():
        life = json.loads(command(capsys, "record", "g", "t-0", offset, "--json", "--log", str(directory)))
        assert [(one["state"], one["deliveries"]) for one in life["moments"]][: len(expected)] == expected
