"""What `muster groups` prints when the server is no Kafka, or closes the connection; tables."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from muster.cli import main
from muster.cli.output import print_table
from muster.client import connection
from muster.coordinator.config.listeners import Address, parse_addresses
from muster.coordinator.history.words import ranges

Capture = pytest.CaptureFixture[str]


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that sends these bytes to the first request and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def versions(error: int, *rows: tuple[int, int, int]) -> bytes:
    """An ApiVersions answer, version 0."""
    body = struct.pack(">ihi", 1, error, len(rows)) + b"".join(struct.pack(">hhh", *row) for row in rows)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            b"",
            "does not answer ApiVersions: the connection was closed; is it a Kafka listener of PLAINTEXT?",
        ),
        (b"HTTP/1.1 400 Bad Request", "answers ApiVersions with something that Kafka never sends"),
        (
            b"\x15\x03\x03\x00\x02\x02\x0a",
            "answers ApiVersions with something that Kafka never sends: it speaks TLS; give",
        ),
        (struct.pack(">ii", -1, 1), "answers ApiVersions with something that Kafka never sends"),
        (struct.pack(">ii", 4, 9), "answers a request that was not sent"),
        (struct.pack(">ii", 4, 1), "answers ApiVersions with something that cannot be read: "),
        (versions(58), "refuses ApiVersions: SASL_AUTHENTICATION_FAILED"),
        (versions(0, (3, 0, 1)), "does not offer Metadata in the versions 4 to 13: Kafka 3.0 or later, or Muster,"),
    ],
)
def test_a_server_that_is_not_kafka_is_named(answer: bytes, sentence: str, capsys: Capture) -> None:
    with answering(answer) as address:
        assert main(["groups", "list", "--bootstrap-server", address]) == 1
        assert f"muster groups list: {address} {sentence}" in capsys.readouterr().err


def test_a_port_without_a_listener_is_reported(capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert main(["groups", "list", "--bootstrap-server", f"127.0.0.1:{port}"]) == 1
    output = capsys.readouterr().err
    assert output.startswith(f"muster groups list: 127.0.0.1:{port} cannot be reached: ")
    assert output.endswith("is a server listening there? (--bootstrap-server HOST:PORT)\n")


def test_the_next_bootstrap_server_is_asked_after_a_failure(capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = f"127.0.0.1:{listener.getsockname()[1]}"
    with answering(b"HTTP/1.1 400 Bad Request") as web, answering(versions(58)) as last:
        assert main(["groups", "list", "--bootstrap-server", f"{gone}, {web},{last},"]) == 1
    assert capsys.readouterr().err == (
        f"muster groups list: none of 3 servers answers: {gone} cannot be reached: Connection refused; "
        f"{web} answers ApiVersions with something that Kafka never sends: it is a server of HTTP; "
        f"{last} refuses ApiVersions: SASL_AUTHENTICATION_FAILED (--bootstrap-server)\n"
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("", "--bootstrap-server '' is not HOST:PORT, or several with commas; as in localhost:9092"),
        (" , ", "--bootstrap-server ' , ' is not HOST:PORT, or several with commas; as in localhost:9092"),
        ("a:1,b", "--bootstrap-server 'b' is not HOST:PORT; as in localhost:9092"),
        ("a:1,::1:2", "--bootstrap-server '::1:2' is not HOST:PORT; an IPv6 host goes in brackets, as in [::1]:9092"),
        ("a:1,b:0", "--bootstrap-server 'b:0': the port 0 is not between 1 and 65535"),
    ],
)
def test_a_bootstrap_list_with_an_invalid_address_is_refused(given: str, sentence: str, capsys: Capture) -> None:
    assert main(["transactions", "list", "--bootstrap-server", given]) == 2
    assert capsys.readouterr().err == f"muster transactions list: {sentence}\n"


def test_a_list_of_addresses_is_parsed_without_repetitions() -> None:
    assert parse_addresses("a:1, [::1]:2 ,,a:1", "--x") == [Address("a", 1), Address("::1", 2)]


def test_a_silent_server_is_given_up_after_the_first_timeout(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(connection, "FIRST_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert main(["groups", "list", "--bootstrap-server", address]) == 1
    assert f"muster groups list: {address} does not answer ApiVersions: timed out; is it a" in capsys.readouterr().err


def test_an_address_without_a_port_is_refused(capsys: Capture) -> None:
    assert main(["groups", "list", "--bootstrap-server", "nowhere"]) == 2
    assert "--bootstrap-server 'nowhere' is not HOST:PORT" in capsys.readouterr().err


def test_numbers_in_a_table_are_right_aligned(capsys: Capture) -> None:
    print_table(("NAME", "N", "NOTE"), [("a", 5, None), ("long name", 123, ""), ("b", None, "x")])
    assert capsys.readouterr().out == (
        "NAME         N  NOTE\na            5  -\nlong name  123  -\nb            -  x\n"
    )


def test_partitions_are_written_as_ranges() -> None:
    assert ranges([]) == ""
    assert ranges([3]) == "3"
    assert ranges([7, 0, 1, 2, 5, 4]) == "0-2,4-5,7"
