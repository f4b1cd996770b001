"""`muster cluster try`: one command starts a cluster with its own database. Real clients use it."""

from __future__ import annotations

import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.e2e.aio import consuming
from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.support.servers import free_port_pair

pytestmark = [
    pytest.mark.skipif(SERVER != "muster" or bool(BOOTSTRAP), reason="nodes of Muster's own"),
    pytest.mark.timeout(300),
]
MUSTER = Path(sys.executable).parent / "muster"
QUICK = ("--override", "group.initial.rebalance.delay.ms=0", "--override", "broker.session.timeout.ms=2000",
         "--override", "offsets.topic.num.partitions=6")  # fmt: skip
PATIENCE_S = 120.0


class Trial:
    """A running `muster cluster try`, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str], errors: Path, keeps: bool) -> None:
        self.process = process
        self.keeps = keeps
        self._errors = errors

    @property
    def said(self) -> str:
        """The lines on stderr so far."""
        return self._errors.read_text(encoding="utf-8")

    @property
    def pids(self) -> dict[int, int]:
        """Node id -> the process that it has now."""
        found = re.findall(r"node (\d+) is ready at .*?, process (\d+)", self.said)
        return {int(node): int(pid) for node, pid in found}

    @property
    def directory(self) -> str:
        """The directory of the cluster."""
        found = re.search(r"nodes? start in (.*)", self.said)
        assert found is not None, self.said
        return found[1]

    def until_said(self, pattern: str) -> None:
        """Wait for a line on stderr."""
        end = time.monotonic() + PATIENCE_S
        while re.search(pattern, self.said) is None:
            assert time.monotonic() < end, self.said
            time.sleep(0.02)

    def ready(self) -> str:
        """The addresses of the one line on stdout."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(PATIENCE_S), self.said
        words = self.process.stdout.readline().split()
        assert words[:2] == ["muster", "ready"], self.said
        return words[2]

    def end(self, number: signal.Signals = signal.SIGTERM) -> str:
        """Stop the cluster. It must print no more to stdout, and leave no process and no file. Returns its stderr."""
        directory = Path(self.directory)
        children = [*self.pids.values(), postmaster(directory)]
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        assert (out, self.process.returncode) == ("", 0), self.said
        assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []
        left = sorted(path.name for path in directory.iterdir()) if self.keeps else directory.exists()
        assert left == ([".lock", *(f"node-{node}{end}" for node in self.pids for end in ("", ".log")), "postgres",
                         "postgres.log"] if self.keeps else False)  # fmt: skip
        return self.said


def postmaster(directory: Path) -> int:
    """The process of the database."""
    return int((directory / "postgres" / "postmaster.pid").read_text().split()[0])


@contextmanager
def trial(tmp_path: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[Trial]:
    """Start the command with these options."""
    errors = tmp_path / f"stderr-{len(list(tmp_path.glob('stderr-*')))}"
    with errors.open("w") as stderr, subprocess.Popen(
        [MUSTER, "cluster", "try", *options], stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=tmp_path,
        env={**os.environ, **(environment or {})},
    ) as process:  # fmt: skip
        try:
            yield Trial(process, errors, "--data-dir" in options)
        finally:
            if process.poll() is None:
                process.kill()


def refused(tmp_path: Path, *options: str) -> tuple[int, str]:
    """Exit status and last line of a run that does not begin."""
    done = subprocess.run(
        [MUSTER, "cluster", "try", *options], capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path
    )
    assert done.stdout == ""
    return done.returncode, done.stderr.strip().splitlines()[-1].removeprefix("muster cluster try: ")


def produce(bootstrap: str, values: Sequence[str]) -> None:
    """Produce with confluent-kafka, until all records are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(PATIENCE_S) == 0


def until_all_coordinate(bootstrap: str, nodes: set[int]) -> None:
    """Wait until each of these nodes coordinates some groups. All partitions of the groups' log move at once."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    end = time.monotonic() + PATIENCE_S
    while True:
        partitions = admin.list_topics("__consumer_offsets", PATIENCE_S).topics["__consumer_offsets"].partitions
        if (now := {one.leader for one in partitions.values()}) == nodes:
            return
        assert time.monotonic() < end, now
        time.sleep(0.1)


async def read(consumer: AIOKafkaConsumer, wanted: set[str]) -> None:
    """Read until all of these records have come."""
    left = set(wanted)
    while left:
        left.discard((await consumer.getone()).value.decode())
    await consumer.commit()


async def test_clients_of_cluster_try_keep_working_when_a_node_is_killed(tmp_path: Path) -> None:
    options = ("--nodes", "3", "--listen", "127.0.0.1:0", "--topic", "orders:6", "--restart-after", "0.1", *QUICK)
    # modules in the current folder, and variables of another PostgreSQL, must not matter
    (tmp_path / "asyncio.py").write_text("raise SystemExit('not this one')")
    with trial(tmp_path, *options, environment={"PGHOST": "nowhere", "PGPORT": "1"}) as cluster:
        bootstrap = cluster.ready()
        assert len(bootstrap.split(",")) == 3
        assert sorted(cluster.pids) == [1, 2, 3]
        first = [f"first-{number}" for number in range(60)]
        produce(bootstrap, first)
        async with consuming(bootstrap, "orders", group_id="kitchen") as one:
            await read(one, {*first})
            pid = cluster.pids[2]
            os.kill(pid, signal.SIGKILL)
            cluster.until_said(r"node 2 \(127.0.0.1:\d+\) was killed by SIGKILL; it starts again in 0.1 s")
            second = [f"second-{number}" for number in range(60)]
            produce(bootstrap, second)
            await read(one, {*second})
            cluster.until_said(rf"node 2 is ready at {bootstrap.split(',')[1]} again, process \d+")
            assert cluster.pids[2] != pid
        # a member of another library finds the group's committed offsets; librdkafka 2.16 never asks for offsets again
        # after NOT_COORDINATOR, so its member joins when the group has moved back
        until_all_coordinate(bootstrap, {1, 2, 3})
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "kitchen", "log_level": 0,
                             "auto.offset.reset": "earliest"})  # fmt: skip
        consumer.subscribe(["orders"])
        produce(bootstrap, ["third"])
        try:
            while (message := consumer.poll(1.0)) is None or message.error():
                pass
            assert message.value() == b"third"
        except KafkaException as error:
            pytest.fail(str(error))
        finally:
            consumer.close()
        assert "all has stopped" in cluster.end(signal.SIGINT)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that all users may enter, also the user who runs PostgreSQL for root."""
    with tempfile.TemporaryDirectory(prefix="muster-kept-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def test_cluster_try_continues_with_a_kept_directory_which_only_one_may_use(tmp_path: Path, open_folder: Path) -> None:
    kept = open_folder / "kept"
    options = ("--nodes", "2", "--listen", "127.0.0.1:0", "--topic", "orders:2", "--data-dir", str(kept), *QUICK)
    with trial(tmp_path, *options) as cluster:
        produce(cluster.ready(), ["kept"])
        status, why = refused(tmp_path, *options)
        pid = cluster.process.pid
        assert (status, why) == (
            1, f"the directory {kept} is in use by the process {pid}: stop it, or give another --data-dir"
        )  # fmt: skip
        cluster.end()
    with trial(tmp_path, *options) as cluster:
        consumer = Consumer({"bootstrap.servers": cluster.ready(), "group.id": "g", "auto.offset.reset": "earliest",
                             "log_level": 0})  # fmt: skip
        consumer.subscribe(["orders"])
        while (message := consumer.poll(1.0)) is None or message.error():
            pass
        assert message.value() == b"kept"
        consumer.close()
        # the process that starts the cluster is killed: on Linux nothing of the cluster stays
        if sys.platform == "linux":
            children = [*cluster.pids.values(), postmaster(kept)]
            cluster.process.kill()
            end = time.monotonic() + PATIENCE_S
            while any(Path(f"/proc/{one}").exists() for one in children):
                assert time.monotonic() < end, children
                time.sleep(0.02)


def test_cluster_try_says_why_it_cannot_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, why = refused(tmp_path, "--nodes", "1", "--listen", address)
        assert status == 1
        assert re.fullmatch(
            rf"node 1 ended with status 1 before it was ready: cannot listen on {address}: the port is in use.*", why
        )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    assert refused(tmp_path, "--data-dir", "other") == (
        1, "the directory other holds notes.txt, which is not of a local cluster: give an empty --data-dir"
    )  # fmt: skip
    (tmp_path / "file").touch()
    assert refused(tmp_path, "--data-dir", "file") == (
        1,
        "--data-dir file cannot be used: it is a file; give a directory",
    )


def test_cluster_try_ends_when_all_nodes_or_the_database_end(tmp_path: Path) -> None:
    options = ("--nodes", "1", "--listen", f"127.0.0.1:{free_port_pair()}")
    with trial(tmp_path, *options) as cluster:
        cluster.ready()
        os.kill(cluster.pids[1], signal.SIGKILL)
        assert cluster.process.wait(PATIENCE_S) == 1
        assert re.search(r"node 1 \(127.0.0.1:\d+\) was killed by SIGKILL\n", cluster.said)
        assert cluster.said.endswith("muster cluster try: no node is left\n")
    with trial(tmp_path, *options) as cluster:
        cluster.ready()
        directory = Path(cluster.directory)
        os.kill(postmaster(directory), signal.SIGKILL)
        assert cluster.process.wait(PATIENCE_S) == 1
        assert "muster cluster try: the database was killed by SIGKILL" in cluster.said
        assert not directory.exists()
