"""Verbs on share groups with a share consumer: of a server in a process of its own, and of an existing cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from muster.testing import CannotBeDone, Muster, WaitFailed
from muster.testing.against import Against, OnlyMuster


@contextmanager
def working(server: Muster, topic: str, group: str) -> Iterator[ShareConsumer]:
    """A worker that acknowledges each record by itself."""
    settings = {"group.id": group, "client.id": "w", "share.acknowledgement.mode": "explicit"}
    worker = ShareConsumer({"bootstrap.servers": server.bootstrap_servers, **settings})
    worker.subscribe([topic])
    try:
        yield worker
    finally:
        worker.close()


def take(worker: ShareConsumer) -> list[Any]:
    """The next records."""
    found: list[Any] = []
    while not found:
        found = [one for one in worker.poll(0.2) if one.error() is None]
    return found


def test_share_group_verbs_work_on_a_server_process_and_on_a_cluster() -> None:
    with Muster(topics={"t": 1}, process=True) as server, Muster(runner=Against(server.bootstrap_servers)) as against:
        group, seen = server.group("g"), against.group("g")
        seen.configure(share_auto_offset_reset="earliest")
        with pytest.raises(CannotBeDone, match="the configs of group g were refused"):
            seen.configure({"share.delivery.count.limit": "many"})
        with working(server, "t", "g") as worker:
            server.topic("t").produce("a")
            (record,) = take(worker)
            assert group.wait_acquired(1, "t", member="w").records["t"][0].in_flight == 1
            with pytest.raises(WaitFailed, match="1 record is held by member nobody"):
                group.wait_acquired(1, member="nobody", timeout=0)
            for refused in (
                lambda: seen.wait_acquired(1),
                seen.expire_locks,
                lambda: seen.deliver_again("t", 0, 0),
                seen.hold_acknowledgements,
                seen.release_acknowledgements,
                seen.wait_acknowledgements_held,
            ):
                with pytest.raises(OnlyMuster):
                    refused()
            group.deliver_again("t", 0, 0)
            assert group.wait_released(1).records["t"][0].held == {}
            worker.acknowledge(record, AcknowledgeType.ACCEPT)
            (record,) = take(worker)
            assert group.expire_locks("w") == 1
            with pytest.raises(CannotBeDone, match="nobody holds such records"):
                group.expire_locks(topic="t", partition=0, offset=0)
            worker.acknowledge(record, AcknowledgeType.ACCEPT)
            (record,) = take(worker)
            group.hold_acknowledgements()
            worker.acknowledge(record, AcknowledgeType.ACCEPT)
            worker.commit_async()
            group.wait_acknowledgements_held(1)
            with pytest.raises(WaitFailed, match="has accepted or archived t-0 up to 1"):
                seen.wait_acknowledged("t", timeout=0.1)
            assert group.release_acknowledgements() == 1
            assert group.wait_acknowledged("t").total_lag == 0
            assert seen.wait_acknowledged().records["t"][0].lag == 0
            assert seen.wait_acknowledged(up_to={("t", 0): 1}).members[0].client_id == "w"
        group.hold_acknowledgements()
        assert seen.describe().kind == "share"
