"""The server as a process and as an address: the ready line, signals, listeners and their advertised addresses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.e2e.aio import consuming, producing, read
from tests.e2e.conftest import BOOTSTRAP, SERVER
from tests.e2e.sync_clients import confluent_admin, confluent_produce
from tests.support import wire
from tests.support.servers import QUICK, MusterServer, ServerProcess, free_port_pair

pytestmark = pytest.mark.skipif(SERVER != "muster" or BOOTSTRAP is not None, reason="Muster's own command line")
Start = Callable[..., ServerProcess]


@pytest.mark.parametrize(
    "signal_number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=["SIGTERM", "SIGINT", "SIGHUP"]
)
@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "files"])
def test_the_server_prints_ready_once_and_ends_with_status_zero(
    start_server: Start, signal_number: int, in_memory: bool
) -> None:
    server = start_server(in_memory=in_memory)
    with socket.create_connection(server.address, timeout=60) as connection:
        assert wire.read_error(wire.call(connection, wire.find_coordinator("g"))) == 0
    assert server.stop(signal_number) == b""


def test_the_server_ends_with_status_zero_with_busy_clients(start_server: Start) -> None:
    """Parked fetches and joins, idle and half-open connections."""
    server = start_server({"group.initial.rebalance.delay.ms": "60000"})
    with (
        socket.create_connection(server.address, timeout=60) as idle,
        socket.create_connection(server.address, timeout=60) as half,
        socket.create_connection(server.address, timeout=60) as fetching,
        socket.create_connection(server.address, timeout=60) as joining,
    ):
        wire.call(fetching, wire.create_topic("t", 1))
        fetching.sendall(wire.frame(wire.fetch("t", 0, 0, max_wait_ms=300_000)))
        member = wire.read_join_group(wire.call(joining, wire.join_group("g", ""))).member
        joining.sendall(wire.frame(wire.join_group("g", member)))
        half.sendall(b"\0\0")
        wire.call(idle, wire.api_versions())
        server.stop()


class Shell(MusterServer):
    """A server that a shell starts, after the shell has prepared something."""

    first = ""

    def command(self) -> Sequence[str | Path]:
        return ["sh", "-c", f'{self.first}; exec "$@"', "sh", *super().command()]


def test_a_hangup_does_not_end_the_server_under_nohup(tmp_path: Path) -> None:
    server = Shell(tmp_path, QUICK, in_memory=True)
    server.first = "trap '' HUP"
    server.start()
    with socket.create_connection(server.address, timeout=60) as connection:
        os.kill(server.pid, signal.SIGHUP)
        assert wire.call(connection, wire.api_versions()).number("h") == 0
    server.stop()
    assert "SIGHUP" not in server.log()


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", "2>/dev/full"])
def test_the_server_works_without_a_log_output(tmp_path: Path, closed: str) -> None:
    server = Shell(tmp_path, QUICK)
    server.first = f"exec {closed}"
    server.start()
    with socket.create_connection(server.address, timeout=60) as connection:
        for _ in range(20):
            refused(server)
        assert wire.read_error(wire.call(connection, wire.find_coordinator("g"))) == 0
    server.stop()
    # no log line was written to a file that was opened in the place of stderr
    for file in (tmp_path / "data").rglob("*"):
        assert file.is_dir() or b"listening" not in file.read_bytes()


def refused(server: ServerProcess) -> None:
    """Whether the server closes a connection for its content, with a line in the log."""
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(b"\xff" * 20)
        assert connection.recv(1) == b""


def test_a_log_pipe_that_is_not_read_does_not_block_the_server(tmp_path: Path) -> None:
    """A pipe holds 64 KB; the server starts, serves and ends all the same."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    os.set_blocking(write_end, True)
    command = MusterServer(tmp_path, QUICK, in_memory=True).command()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=write_end)
    try:
        assert server.stdout is not None
        host, port = server.stdout.readline().split()[2].decode().rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            answer = wire.call(connection, wire.join_group("g", ""))
            assert wire.read_join_group(answer).error_code == 79
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
        # a start that fails does not wait for it either
        again = subprocess.run([*command, "--override", "num.partitions=x"], stderr=write_end, timeout=30, check=False)
        assert again.returncode == 2
    finally:
        server.kill()
        server.communicate()
        os.close(read_end)
        os.close(write_end)


def test_suppressed_log_lines_are_counted_at_the_end(start_server: Start) -> None:
    server = start_server(in_memory=True)
    for _ in range(100):
        refused(server)
    server.stop()
    lines = server.log_lines()
    reported = [line for line in lines if line["event"] == "closed a connection"]
    (summary,) = [line for line in lines if "more of these" in line["event"]]
    assert len(reported) + summary["more"] == 100
    assert len(reported) < 50


def test_a_program_fault_is_printed_after_the_logged_lines(tmp_path: Path) -> None:
    fault = "from muster.coordinator import server\nserver.Server.stop = None\n"
    program = f"{fault}import sys\nfrom muster.cli import main\nsys.exit(main())"
    _, *arguments = MusterServer(tmp_path, QUICK, in_memory=True).command()
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"muster ready ")
        server.send_signal(signal.SIGTERM)
        _, log = server.communicate(timeout=30)
    assert server.returncode == 1
    stopping, trace = log.index(b'"stopping"'), log.index(b"Traceback (most recent call last):")
    assert stopping < trace
    assert log.endswith(b"TypeError: 'NoneType' object is not callable\n")


def test_a_second_server_on_the_same_data_is_refused(start_server: Start, tmp_path: Path) -> None:
    first = start_server()
    second = subprocess.run(
        [*MusterServer(first.workdir).command()], capture_output=True, text=True, timeout=30, check=False
    )
    assert second.returncode == 1
    assert second.stdout == ""
    assert str(first.workdir / "data") in second.stderr
    with socket.create_connection(first.address, timeout=60) as connection:
        assert wire.call(connection, wire.api_versions()).number("h") == 0


def test_the_error_about_a_used_port_names_the_port(start_server: Start, tmp_path: Path) -> None:
    first = start_server(in_memory=True)
    other = MusterServer(tmp_path / "other", in_memory=True)
    other.bootstrap = first.bootstrap
    second = subprocess.run([*other.command()], capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 1
    assert first.bootstrap.rsplit(":", 1)[1] in second.stderr
    assert "Traceback" not in second.stderr


async def test_each_listener_advertises_its_own_address(start_server: Start) -> None:
    port = free_port_pair()
    server = start_server(
        {
            "listeners": f"INSIDE://127.0.0.1:{port},OUTSIDE://127.0.0.1:{port + 1}",
            "advertised.listeners": f"INSIDE://127.0.0.1:{port},OUTSIDE://localhost:{port + 1}",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        },
        in_memory=True,
    )
    assert server.bootstrap == f"127.0.0.1:{port}"
    for bootstrap, advertised in ((f"127.0.0.1:{port}", "127.0.0.1"), (f"127.0.0.1:{port + 1}", "localhost")):
        admin = confluent_admin(bootstrap)
        (node,) = (await asyncio.to_thread(lambda: admin.describe_cluster().result(10))).nodes  # noqa: B023  # awaited
        assert (node.host, node.port) == (advertised, int(bootstrap.rsplit(":", 1)[1]))
        (broker,) = admin.list_topics(timeout=60).brokers.values()
        assert (broker.host, broker.port) == (node.host, node.port)
        with socket.create_connection(("127.0.0.1", node.port), timeout=60) as connection:
            answer = wire.call(connection, wire.find_coordinator("g"))
            assert wire.read_error(answer) == 0
            answer.string()
            answer.number("i")
            assert (answer.string(), answer.number("i")) == (node.host, node.port)
        async with producing(bootstrap) as producer:
            await producer.send_and_wait("both", b"v")
    async with consuming(f"127.0.0.1:{port + 1}", "both", group_id="g") as consumer:
        assert len(await read(consumer, 2)) == 2


async def test_the_advertise_and_topic_options_work(tmp_path: Path) -> None:
    server = MusterServer(
        tmp_path, QUICK, in_memory=True, arguments=["--advertise", "localhost:19092", "--topic", "given:3"]
    )
    server.start()
    try:
        with socket.create_connection(server.address, timeout=60) as connection:
            answer = wire.call(connection, wire.find_coordinator("g"))
            assert wire.read_error(answer) == 0
            answer.string()
            answer.number("i")
            assert (answer.string(), answer.number("i")) == ("localhost", 19092)
            assert [
                wire.read_list_offsets_error(wire.call(connection, wire.list_offsets("given", p))) for p in range(4)
            ] == [
                0,
                0,
                0,
                3,
            ]
    finally:
        server.stop()


def test_librdkafka_connects_by_host_name(start_server: Start) -> None:
    server = start_server(in_memory=True)
    bootstrap = f"localhost:{server.address[1]}"
    (delivered,) = confluent_produce(bootstrap, "by-name", [(None, b"v")], broker_address_family="v4")
    assert delivered.offset() == 0
