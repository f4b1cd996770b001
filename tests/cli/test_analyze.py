from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from muster.cli import main


def test_analyze_without_spark_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for name in [name for name in sys.modules if name.startswith("muster.pipeline.analyze")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("pyspark.")]:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["analyze", "muster-data"]) == 1
    output = capsys.readouterr().err
    assert output.startswith("muster analyze: it needs Spark, and pyspark")
    assert output.endswith("is not installed: pip install 'muster-kafka[spark]'\n")


def test_a_wrong_option_is_refused_before_spark_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "muster.pipeline.analyze", None)
    assert main(["analyze", "muster-data", "--format", "pdf"]) == 2
    assert capsys.readouterr().err == "muster analyze: --format pdf: 'pdf' is none of html, parquet, csv, json\n"


@contextmanager
def alerting(connections: int) -> Iterator[str]:
    """A server that answers as a TLS server does to a client without TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(connections):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"\x15\x03\x03\x00\x02\x02\x0a")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def test_a_listener_with_tls_is_named_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "muster.pipeline.analyze", None)
    with alerting(2) as where:
        assert main(["analyze", "--bootstrap-server", where]) == 1
    assert capsys.readouterr().err == (
        f"muster analyze: {where} cannot be read: it speaks TLS: give security.protocol=SSL or SASL_SSL in the file "
        "of --command-config\n"
    )


def test_a_client_with_tls_passes_the_check_of_the_listener(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "muster.pipeline.analyze", None)
    assert main(["analyze", "--bootstrap-server", "127.0.0.1:1", "-X", "kafka.security.protocol=ssl"]) == 1
    assert "it needs Spark" in capsys.readouterr().err
