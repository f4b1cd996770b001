"""`Muster`: its life in a thread and as a process, its verbs in both kinds of tests, and an existing cluster."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import muster.testing
from muster.coordinator.config import ConfigError
from muster.testing import CannotBeDone, Muster, WaitFailed
from muster.testing.against import Against, OnlyMuster
from tests.e2e.aio import consuming
from tests.e2e.sync_clients import confluent_consumer, kafka_python_consumer


@pytest.fixture(scope="module")
def server() -> Iterator[Muster]:
    with Muster(topics={"orders": 3}) as running:
        yield running


def test_the_package_exports_its_documented_names() -> None:
    assert set(muster.testing.__all__) <= set(dir(muster.testing))
    assert all(getattr(muster.testing, name) is not None for name in muster.testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = muster.testing.nothing


def test_a_server_starts_and_stops_without_leftover_threads() -> None:
    before = threading.active_count()
    server = Muster(
        {"group.max.size": 2}, topics=["orders", "other:2"], num_partitions=4, auto_create_topics_enable=False
    )
    assert not server.is_running
    with pytest.raises(CannotBeDone, match="does not run"):
        server.group("g").describe()
    with server:
        assert server.is_running
        assert server.topics == ["orders", "other"]
        assert server.topic("orders").end_offsets() == dict.fromkeys(range(4), 0)
        assert server.topic("other").end_offsets() == {0: 0, 1: 0}
        assert server.groups == []
        assert [node.state for node in server.nodes] == ["up"]
        with pytest.raises(CannotBeDone, match="runs already"):
            server.start()
    server.stop()
    with pytest.raises(CannotBeDone, match="does not run"):
        server.kill()
    assert threading.active_count() == before


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
@pytest.mark.parametrize("how", ["restart", "kill"])
def test_data_survives_a_server_with_a_data_directory(tmp_path: Path, process: bool, how: str) -> None:
    with Muster(topics={"orders": 1}, directory=tmp_path / "data", process=process) as server:
        at = server.bootstrap_servers
        assert server.topic("orders").produce("kept", b"too", key="k", headers={"h": "v"}) == [(0, 0), (0, 1)]
        if how == "kill":
            server.kill()
            assert not server.is_running
            server.start()
        else:
            server.restart()
        assert server.bootstrap_servers == at
        found = server.topic("orders").records()
        assert [(one.key, one.text, one.headers) for one in found] == [
            (b"k", "kept", (("h", b"v"),)),
            (b"k", "too", (("h", b"v"),)),
        ]
        reported = [line.text for line in server.lines.warnings()]
        assert ("the last stop was not clean: logs are checked from their recovery points on" in reported) is (
            how == "kill"
        )


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
def test_a_wrong_property_is_refused_at_once(process: bool) -> None:
    with pytest.raises(ConfigError, match=r"group\.max\.sise"):
        Muster(group_max_sise=3, process=process)
    with pytest.raises(ConfigError):
        Muster(group_max_size="many", process=process)


def test_a_port_that_is_taken_is_an_error(server: Muster) -> None:
    port = int(server.bootstrap_servers.rpartition(":")[2])
    for process in (False, True):
        second = Muster(port=port, process=process)
        with pytest.raises(OSError, match=r"in use|cannot listen"):
            second.start()
        assert not second.is_running


def test_a_server_process_refuses_a_seed() -> None:
    with pytest.raises(ValueError, match="no seed"):
        Muster(process=True, seed=7)


def test_a_test_waits_for_members_of_each_client(server: Muster) -> None:
    at = server.bootstrap_servers
    for name in ("confluent", "kafka-python"):
        group = server.group(name)
        if name == "confluent":
            with confluent_consumer(at, group_id=name) as consumer:
                consumer.subscribe(["orders"])
                consumer.poll(0)
                view = group.wait_stable(members=1, partitions="orders")
        else:
            with kafka_python_consumer(at, "orders", group_id=name) as consumer:
                joining = threading.Thread(target=lambda consumer=consumer: consumer.poll(timeout_ms=3000))
                joining.start()
                view = group.wait_stable(members=1, partitions="orders")
                server.topic("orders").produce("x")  # the poll ends
                joining.join()
        assert view.members[0].subscribed == ("orders",)
        assert group.wait_until(lambda one: not one.members, what="is empty").state == "Empty"
        assert group.history()
        assert group.events()[0]["kind"] == "group_created"
    assert set(server.groups) == {"confluent", "kafka-python"}


async def test_verbs_can_be_awaited_on_the_loop_of_the_consumers(server: Muster) -> None:
    both = server.aio
    topic = await both.topic("async").create(2, configs={"retention.ms": "60000"})
    async with consuming(both.bootstrap_servers, "async", group_id="a", client_id="c") as consumer:
        group = both.group("a")
        view = await group.wait_stable(members=1, partitions=["async"])
        assert (await topic.produce("x", partition=1)) == [(1, 0)]
        record = await consumer.getone()
        await consumer.commit()
        assert record.value == b"x"
        assert (await group.wait_consumed("async")).total_lag == 0
        await group.rebalance()
        again = await group.wait_until(lambda one: one.is_stable and one.generation > view.generation)
        await group.expire(again.members[0])
        with pytest.raises(WaitFailed):
            await group.wait_until(lambda _: False, what="never comes", timeout=0)
        with pytest.raises(RuntimeError, match="hold up the event loop"):
            server.group("a").wait_stable()
        assert server.group("a").generation >= again.generation  # a check takes no time
        await group.wait_until(lambda one: one.is_stable and one.generation > again.generation)
        await group.remove("c")
        assert await group.events()
        assert await group.history()
    await topic.grow(3)
    assert await topic.end_offsets() == {0: 0, 1: 1, 2: 0}
    assert [one.text for one in await topic.records()] == ["x"]
    await group.wait_until(lambda one: not one.members)
    await group.reset_offsets("earliest")
    assert (await group.describe()).total_lag == 1
    await topic.delete()
    assert "a" in await both.groups()
    assert (await both.coordinator("a")).id == both.nodes[0].id


async def test_muster_works_as_an_asynchronous_context_manager(tmp_path: Path) -> None:
    async with Muster(directory=tmp_path / "data", topics={"t": 1}) as server:
        await server.topic("t").produce("x")
        await server.restart()
        assert len(await server.topic("t").records()) == 1
        await server.kill()
        await server.start()
        assert len(await server.topic("t").records()) == 1
    assert not server.sync.is_running


async def test_joins_are_held_from_both_kinds_of_tests(server: Muster) -> None:
    group = server.group("held")
    group.hold_joins()
    async with asyncio.TaskGroup() as tasks, Joining(server, tasks, "held"):
        await group.aio.wait_held(1)
        assert group.state == "Dead"
        assert group.release() == 1
        await group.aio.wait_stable(members=1)
        await group.aio.hold_joins()
        assert await group.aio.release() == 0


class Joining:
    """A consumer that begins to join at the start of the block, and leaves at its end."""

    def __init__(self, server: Muster, tasks: asyncio.TaskGroup, group_id: str) -> None:
        self._over = asyncio.Event()

        async def consume() -> None:
            async with consuming(server.bootstrap_servers, "orders", group_id=group_id):
                await self._over.wait()

        self._task = tasks.create_task(consume())

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        self._over.set()


async def test_nodes_are_stopped_killed_paused_and_return() -> None:
    with Muster(nodes=3, topics={"orders": 3}) as server:
        assert len(server.bootstrap_servers.split(",")) == 3
        async with consuming(server.bootstrap_servers, "orders", group_id="g"):
            group = server.group("g")
            await group.aio.wait_stable(members=1, partitions="orders")
            coordinator = server.coordinator("g")
            coordinator.kill()
            assert coordinator.state == "killed"
            await group.aio.wait_until(lambda one: one.is_stable and one.node not in (coordinator.id, -1))
            coordinator.return_()
            await server.nodes[0].aio.pause()
            assert (await server.aio.nodes[0].describe()).state == "paused"
            server.nodes[0].resume()
            other = next(node for node in server.nodes if node.id != server.coordinator("g").id)
            await other.aio.stop()
            assert other.state == "stopped"
            await other.aio.return_()
        ports = server.bootstrap_servers
        server.restart()
        assert server.bootstrap_servers == ports


def test_only_log_lines_of_the_server_are_kept(server: Muster, capsys: pytest.CaptureFixture[str]) -> None:
    assert any(line.text == "listening" for line in server.lines.since(0))
    assert capsys.readouterr().out == ""
    log = structlog.get_logger("mine")
    with structlog.testing.capture_logs() as lines:
        log.warning("of the test")
        from muster.coordinator.server import process

        process.log.warning("of a server in this thread")
    assert [line["event"] for line in lines] == ["of the test", "of a server in this thread"]
    assert str(server.lines.since(0)[0]).startswith("info muster.server: listening")
    assert server.lines.since(server.lines.count) == []


def test_a_failed_wait_can_be_pickled(server: Muster) -> None:
    with pytest.raises(WaitFailed) as failed:
        server.group("nobody").wait_stable(timeout=0)
    again = pickle.loads(pickle.dumps(failed.value))
    assert str(again) == str(failed.value)
    assert "there is no group nobody" in str(again)


def test_an_existing_cluster_is_used(server: Muster) -> None:
    with Muster(runner=Against(server.bootstrap_servers)) as cluster:
        topic = cluster.topic("elsewhere").create(2)
        assert "elsewhere" in cluster.topics
        assert topic.produce("a", None, key="k") == server.topic("elsewhere").produce("c", "d", key="k")[:0] + [
            (one.partition, one.offset) for one in topic.records()[:2]
        ]
        topic.grow(3)
        assert sum(topic.end_offsets().values()) == 4
        group = cluster.group("e")
        with pytest.raises(WaitFailed, match="Kafka keeps no history"):
            group.wait_stable(timeout=0)
        with kafka_python_consumer(cluster.bootstrap_servers, "elsewhere", group_id="e") as consumer:
            read = 0
            while read < 4:
                read += sum(map(len, consumer.poll(timeout_ms=500).values()))
            view = group.wait_stable(members=1, partitions="elsewhere")
            assert view.kind == "classic"
            assert view.total_lag == 4
            consumer.commit()
            assert group.wait_consumed("elsewhere").total_lag == 0
            assert group.wait_consumed().offsets == server.group("e").offsets
            with pytest.raises(CannotBeDone, match="has members"):
                group.reset_offsets("earliest")
            group.remove(view.members[0])
        group.wait_until(lambda one: not one.members)
        assert sum(group.reset_offsets("earliest")["elsewhere"].values()) == 0
        assert group.reset_offsets({("elsewhere", 0): 0}) == {"elsewhere": {0: 0}}
        assert group.reset_offsets(0, "elsewhere")["elsewhere"] == {0: 0, 1: 0, 2: 0}
        assert "e" in cluster.groups
        with confluent_consumer(cluster.bootstrap_servers, group_id="next", group_protocol="consumer") as other:
            other.subscribe(["elsewhere"])
            other.poll(0.1)
            view = cluster.group("next").wait_stable(members=1, partitions="elsewhere")
            assert (view.kind, view.members[0].protocol) == ("consumer", "consumer")
        for only in (
            group.rebalance,
            lambda: group.expire("x"),
            group.hold_joins,
            group.release,
            group.wait_held,
            cluster.nodes[0].kill,
            group.history,
            group.events,
            cluster.kill,
        ):
            with pytest.raises(OnlyMuster):
                only()
        assert cluster.nodes[0].state == "up"
        assert cluster.coordinator("e").id == server.nodes[0].id
        with pytest.raises(CannotBeDone):
            topic.create()
        topic.delete()
    with pytest.raises(CannotBeDone, match="cannot be reached"):
        Muster(runner=Against("127.0.0.1:1")).start()


def test_a_wait_that_fails_shows_the_line_of_the_test(server: Muster) -> None:
    with pytest.raises(WaitFailed) as caught:
        server.group("nobody").wait_stable(members=1, timeout=0)
    shown = [entry.path for entry in caught.traceback.filter(caught)]
    assert [Path(path).name for path in shown] == ["test_muster.py"]

    async def awaited() -> None:
        await server.aio.group("nobody").wait_stable(members=1, timeout=0)

    with pytest.raises(WaitFailed) as caught:
        asyncio.run(awaited())
    assert "in_thread.py" not in str(caught.getrepr())
    assert "groups.py" not in str(caught.getrepr())


def test_a_server_has_a_name_in_reports(server: Muster) -> None:
    assert [repr(one) for one in (server.topic("t"), server.group("g"), server.nodes[0])] == [
        "Topic('t')",
        "Group('g')",
        "Node(1)",
    ]
    assert repr(server.aio.group("g")) == "AsyncGroup('g')"


def test_a_wait_on_a_killed_server_says_that_it_was_killed() -> None:
    with Muster() as server:
        waits = threading.Event()

        def kill() -> None:
            waits.wait()
            server.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(CannotBeDone, match="stopped or killed"):
            server.group("g").wait_until(lambda _: waits.set(), timeout=30)
        killer.join()

    async def awaited() -> None:
        async with Muster() as other:
            begun = threading.Event()
            waiting = asyncio.create_task(other.group("g").wait_until(lambda _: begun.set(), timeout=30))
            await asyncio.to_thread(begun.wait)
            await other.kill()
            with pytest.raises(CannotBeDone, match="stopped or killed"):
                await waiting

    asyncio.run(awaited())


def test_a_wait_that_the_test_cancels_is_cancelled() -> None:
    async def cancelled() -> None:
        async with Muster() as server:
            begun = threading.Event()
            waiting = asyncio.create_task(server.group("g").wait_until(lambda _: begun.set(), timeout=30))
            await asyncio.to_thread(begun.wait)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(cancelled())


def test_a_verb_that_hangs_is_reported() -> None:
    with Muster() as server, pytest.raises(CannotBeDone, match=r"not answered for 0\.05 s"):
        server._runner.bridge.call(lambda: asyncio.sleep(30), patience_s=0.05)


SAYS_NOTHING = """\
import confluent_kafka
from muster.testing import Muster

with Muster(topics={"orders": 1}) as muster:
    settings = {"bootstrap.servers": muster.bootstrap_servers, "transactional.id": "billing", "log_level": 0}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"1")
    producer.commit_transaction(30)
    assert any(line.logger == "muster.transactions" for line in muster.lines.since(0))
print("done")
"""


def test_late_imports_of_the_server_print_nothing() -> None:
    """The server's loggers are replaced before they write a line. The test runs in a process of its own: here
    everything is imported.
    """
    done = subprocess.run(
        [sys.executable, "-c", SAYS_NOTHING], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
