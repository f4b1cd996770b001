"""What a leader of Connect workers answers to metadata: bytes in, bytes out."""

from __future__ import annotations

import pytest

from muster.assignors.connect.leader import CONFIG_MISMATCH, Rebalance, Result, Snapshot, perform
from muster.assignors.connect.work import State
from muster.protocol.connect import ConnectWorkerState, decode_assignment, encode_worker_state
from muster.protocol.message import MalformedMessage

CONFIGURED = {"files": 2}


def lead(protocol: str, *, offset: int, fresh: int | None = None, read: int = 5, leader: str = "w1") -> Result:
    version = 0 if protocol == "default" else 2
    members = [
        (name, encode_worker_state(ConnectWorkerState(f"http://{name}/", read), version)) for name in ("w1", "w2")
    ]
    return perform(
        Rebalance(leader, protocol, members, generation=1, completed_generation=-1),
        State(),
        0,
        Snapshot(offset, CONFIGURED),
        fresh=None if fresh is None else Snapshot(fresh, CONFIGURED),
    )


@pytest.mark.parametrize(("protocol", "version"), [("default", 0), ("compatible", 1), ("sessioned", 2)])
def test_the_leader_answers_each_connect_protocol_in_its_version(protocol: str, version: int) -> None:
    result = lead(protocol, offset=9)
    claimed, assignment = decode_assignment(result.assignments["w2"])
    assert (claimed, assignment.leader, assignment.leader_url, assignment.error) == (version, "w1", "http://w1/", 0)
    assert assignment.offset == 5, "as far as the workers have read"
    assert sorted(map(str, (item for work in result.running.values() for item in work))) == [
        "files",
        "files-0",
        "files-1",
    ]


@pytest.mark.parametrize("protocol", ["default", "sessioned"])
def test_a_leader_behind_its_config_reads_on_or_refuses(protocol: str) -> None:
    assert decode_assignment(lead(protocol, offset=4, fresh=8).assignments["w1"])[1].offset == 8
    for fresh in (None, 4):
        result = lead(protocol, offset=4, fresh=fresh)
        _, assignment = decode_assignment(result.assignments["w1"])
        assert (assignment.error, assignment.offset, list(assignment.assigned)) == (CONFIG_MISMATCH, 5, [])
        assert (result.state, result.running) == (State(), {})


def test_an_invalid_connect_protocol_or_metadata_is_refused() -> None:
    with pytest.raises(ValueError, match="'range' is no protocol of Connect: one of default, compatible, sessioned"):
        lead("range", offset=9)
    with pytest.raises(ValueError, match="the leader 'w9' is not among the members w1, w2"):
        lead("default", offset=9, leader="w9")
    with pytest.raises(MalformedMessage):
        perform(Rebalance("w1", "sessioned", [("w1", b"\x00")], 1, -1), State(), 0, Snapshot(0, {}))
