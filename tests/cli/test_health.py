"""`muster health` as a probe of a container uses it."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command_harness import COMMAND, START_S, Serving, environment, run
from tests.support.certificates import Authority
from tests.support.servers import free_port_pair


def test_health_fails_for_a_silent_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    result = run("health", f"127.0.0.1:{port}")
    assert result.returncode == 1
    assert result.stderr.startswith(f"muster health: 127.0.0.1:{port} does not answer: ")


@pytest.mark.parametrize("is_closed", [True, False])
def test_health_has_its_exit_status_also_with_a_closed_pipe(serving: Callable[..., Serving], is_closed: bool) -> None:
    server = serving("--in-memory", "--listen", "127.0.0.1:0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    for port, status in ((server.port, 0), (nobody, 1)):
        command = [*COMMAND, "health", f"127.0.0.1:{port}"]
        if is_closed:
            done = subprocess.run(
                ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *command], timeout=START_S, env=environment()
            )
        else:
            reads, writes = os.pipe()
            os.close(reads)
            with os.fdopen(writes, "wb") as gone:
                done = subprocess.run(command, stdout=gone, stderr=gone, timeout=START_S, env=environment())
        assert done.returncode == status


def test_health_asks_the_first_listener_of_the_configuration(serving: Callable[..., Serving]) -> None:
    server = serving("--in-memory", "--listen", "127.0.0.1:0")
    env = {"KAFKA_LISTENERS": f"PLAINTEXT://:{server.port}"}
    assert run("health", env=env).stdout == f"muster health: 127.0.0.1:{server.port} answers\n"
    server.stop()


def test_health_with_tls_does_not_ask_a_listener_without_it() -> None:
    refused = run("health", "--tls", env={"KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:1"})
    sentence = "muster health: --tls: no listener of --config or the environment has TLS (PLAINTEXT); give HOST:PORT\n"
    assert (refused.returncode, refused.stderr) == (2, sentence)


def test_health_asks_the_http_door_if_there_is_one(serving: Callable[..., Serving]) -> None:
    port = free_port_pair()
    env = {"KAFKA_MUSTER_HTTP_LISTENER": f"127.0.0.1:{port}"}
    serving("--in-memory", "--listen", "127.0.0.1:0", "--http", f"127.0.0.1:{port}")
    assert run("health", env=env).stdout == f"muster health: 127.0.0.1:{port} answers\n"
    with socket.create_server(("127.0.0.1", 0)) as other:
        answering = threading.Thread(target=_answer_unready, args=(other,))
        answering.start()
        at = f"127.0.0.1:{other.getsockname()[1]}"
        result = run("health", env={"KAFKA_MUSTER_HTTP_LISTENER": at})
        answering.join()
    assert (result.returncode, result.stderr) == (1, f"muster health: {at} does not answer: not ready\n")


def _answer_unready(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nnot ready")


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_health_connects_with_tls(serving: Callable[..., Serving], tmp_path: Path, client_auth: str) -> None:
    key = Authority().signed("CN=server").pem(tmp_path / "key.pem")
    properties = {"LISTENERS": "SSL://127.0.0.1:0", "SSL_KEYSTORE_TYPE": "PEM", "SSL_KEYSTORE_LOCATION": key}
    env = {f"KAFKA_{name}": value for name, value in (properties | {"SSL_CLIENT_AUTH": client_auth}).items()}
    address = serving("--in-memory", env=env).line.split()[2]
    assert run("health", "--tls", address).returncode == 0
    assert run("health", address).returncode == 1
    there = env | {"KAFKA_LISTENERS": f"SSL://{address}"}
    assert run("health", env=there).stdout == f"muster health: {address} answers\n"
    both = there | {
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:1,SSL://{address}",
        "KAFKA_MUSTER_HTTP_LISTENER": "127.0.0.1:2",
    }
    assert run("health", "--tls", env=both).stdout == f"muster health: {address} answers\n"
