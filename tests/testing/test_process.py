"""A server in a process of its own has the same verbs as a server in a thread."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.testing import CannotBeDone, Muster, WaitFailed
from muster.testing.faults import Call, Error, Match, NoSuchFault, times
from muster.testing.time import RanInVain
from tests.testing.clients import CLIENTS


@pytest.fixture(scope="module")
def server() -> Iterator[Muster]:
    with Muster(topics={"orders": 4}, nodes=2, process=True) as running:
        yield running


def test_group_verbs_work_on_a_server_process(server: Muster) -> None:
    group, topic = server.group("g"), server.topic("orders")
    topic.produce("a", "b")
    group.hold_joins()
    with CLIENTS["aiokafka"](server.bootstrap_servers, "orders", "g", "one"):
        with pytest.raises(WaitFailed, match="there is no group g"):
            group.wait_stable(timeout=0.2)
        group.release()
        view = group.wait_stable(members=1, partitions="orders")
        assert view.generation == 1
        assert group.wait_consumed("orders").total_lag == 0
        group.rebalance()
        group.wait_until(lambda one: one.is_stable)
        group.expire(view.members[0])
        with pytest.raises(CannotBeDone):
            group.expire("nobody")
        group.wait_stable(members=1, partitions="orders")
        with pytest.raises(WaitFailed, match="asked"):
            group.wait_stable(members=2, timeout=0)
    assert any(event["kind"] == "member_expired" for event in group.events())
    assert group.history()
    assert server.group("nobody").history() == []
    with pytest.raises(CannotBeDone):
        server.group("nobody").rebalance()


def test_fault_verbs_work_on_a_server_process(server: Muster) -> None:
    server.topic("orders").produce("a", "b")
    with CLIENTS["aiokafka"](server.bootstrap_servers, "orders", "f", "one"):
        server.group("f").wait_stable(members=1)
        match = Match(api="Heartbeat", group="f")
        with server.faults.add(match, Error("NOT_COORDINATOR"), times(2), name="moved") as fault:
            server.group("f").wait_until(lambda _: fault.hits == 2, what="has heard it twice")
            assert fault.held == 0
        assert fault.hits == 2
        assert "NOT_COORDINATOR" in repr(fault)
    assert [hit["name"] for hit in server.faults.log() if hit["group"] == "f"] == ["moved"] * 2
    with pytest.raises(NoSuchFault):
        fault.release()
    with pytest.raises(CannotBeDone, match="a function in Python"):
        server.faults.add(match, Call(print))
    server.faults.clear()


def test_time_verbs_work_on_a_server_process(server: Muster) -> None:
    before = server.time.freeze()
    assert server.time.advance(5_000).mono_ms == before.mono_ms + 5_000
    assert server.time.now().frozen
    assert server.time.run_until().frozen
    with pytest.raises(RanInVain):
        server.time.run_until("nobody", limit_ms=10, settle_ms=1)
    with pytest.raises(CannotBeDone, match="one topic"):
        server.time.run_until("nobody", partitions=["a", "b"])
    server.tidy()
    assert not server.time.now().frozen


def test_node_verbs_work_on_a_server_process(server: Muster) -> None:
    other = server.nodes[1]
    for do, undo, state in ((other.stop, other.return_, "stopped"), (other.pause, other.resume, "paused")):
        do()
        assert other.state == state
        undo()
        assert other.state == "up"
    other.kill()
    assert other.state == "killed"
    with pytest.raises(CannotBeDone):
        other.pause()
    other.return_()


def test_scenarios_work_on_a_server_process(server: Muster) -> None:
    server.topic("orders").produce("a", "b")
    with CLIENTS["aiokafka"](server.bootstrap_servers, "orders", "s", "one"):
        server.group("s").wait_stable(members=1)
        with server.scenario("slow-coordinator", group="s", ms=20) as scenario:
            assert scenario.steps == ["requests of group s wait for 20 ms"]
            assert repr(scenario) == "Scenario('slow-coordinator')"
            assert scenario.is_done in (True, False)
    with pytest.raises(NoSuchFault):
        server.scenario("no-such")


def test_a_server_ends_with_the_process_that_started_it() -> None:
    """The server ends also when its parent is ended by SIGKILL, as a test run that takes too long is."""
    program = (
        "import sys\nfrom muster.testing import Muster\n"
        "with Muster(process=True) as muster:\n    print(muster.bootstrap_servers, flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as test:
        assert test.stdout is not None
        host, port = test.stdout.readline().decode().strip().split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            test.kill()
            assert connection.recv(1) == b""  # the server closes the connection


def test_all_nodes_are_named_and_keep_their_ports_and_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "9")  # variables of an environment for other servers
    with Muster(nodes=3, process=True, topics=["orders"]) as server:
        before = server.bootstrap_servers
        assert before.split(",") == [node.describe().addresses[0] for node in server.nodes]
        assert server.topic("orders").end_offsets() == {0: 0}
        topic, group, node, time_of_it = server.topic("orders"), server.group("g"), server.nodes[0], server.time
        topic.produce("a")
        server.restart()
        topic.produce("b")
        assert (group.state, node.state, time_of_it.now().frozen) == ("Dead", "up", False)
        server.kill()
        assert server.bootstrap_servers == before
        server.start()
        assert server.bootstrap_servers == before
        assert [record.text for record in server.topic("orders").records()] == ["a", "b"]
        directory = Path(server.runner._directory)
        assert directory.exists()
    assert directory.exists()
    del server, topic, group, node, time_of_it
    gc.collect()
    assert not directory.exists()


def test_the_temporary_directory_of_a_killed_test_is_removed() -> None:
    program = (
        "import sys\nfrom muster.testing import Muster\n"
        "with Muster(process=True) as muster:\n    print(muster.runner._directory, flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as test:
        assert test.stdout is not None
        directory = Path(test.stdout.readline().decode().strip())
        assert directory.exists()
        test.kill()
    eventually(lambda: not directory.exists())


def eventually(is_so: Callable[[], object]) -> None:
    due_s = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < due_s
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["stop", "kill", "pause"])
def test_verbs_work_while_any_one_node_is_down(server: Muster, how: str) -> None:
    undo = "resume" if how == "pause" else "return_"
    name = f"gone-{how}"
    server.topic(name).create(2)
    for number, node in enumerate(server.nodes, 1):
        getattr(node, how)()
        assert name in server.topics
        server.topic(name).produce("x", partition=0)
        assert server.topic(name).end_offsets() == {0: number, 1: 0}
        assert len(server.topic(name).records()) == number
        assert server.group("nobody").describe().state == "Dead"
        assert node.state == {"stop": "stopped", "kill": "killed", "pause": "paused"}[how]
        getattr(node, undo)()
        assert server.coordinator("nobody").state == "up"
    server.topic(name).grow(3)
    server.topic(name).delete()
    assert name not in server.topics


def test_ctrl_c_in_a_terminal_does_not_reach_the_server_process(server: Muster) -> None:
    """A terminal sends SIGINT to all processes of the foreground session."""
    assert os.getsid(server.runner.pid) != os.getsid(0)


def test_records_read_from_a_server_process_are_those_produced(server: Muster) -> None:
    topic = server.topic("odd").create(1)
    topic.produce(b"\xff", None, "ü", key=b"\xfe", headers={"a": b"\xfd", "b": None, "c": "text"}, timestamp_ms=7)
    assert [(one.value, one.key, one.timestamp_ms) for one in topic.records()] == [
        (b"\xff", b"\xfe", 7),
        (None, b"\xfe", 7),
        ("ü".encode(), b"\xfe", 7),
    ]
    assert topic.records(0)[0].headers == (("a", b"\xfd"), ("b", None), ("c", b"text"))
    large = "x" * 900_000
    places = topic.produce(*(str(one) for one in range(1_500)), large, "last")
    assert places == [(0, 3 + one) for one in range(1_502)]
    assert [one.text for one in topic.records(since=3)] == [*map(str, range(1_500)), large, "last"]
    assert [one.text for one in topic.records(since=3, most=2)] == ["0", "1"]
    topic.delete()


def test_held_joins_are_awaited_and_released(server: Muster) -> None:
    group = server.group("held")
    group.hold_joins()
    with CLIENTS["aiokafka"](server.bootstrap_servers, "orders", "held", "one"):
        group.wait_held(1)
        with pytest.raises(WaitFailed, match="2 joins are held"):
            group.wait_held(2, timeout=0.05)
        assert group.release() == 1
        view = group.wait_stable(members=1, partitions="orders")
        assert view.node == server.coordinator("held").id
        assert view.members[0].doing == "has its assignment"
        assert len(group.history(everything=True)) >= len(group.history())
        group.remove("one")
