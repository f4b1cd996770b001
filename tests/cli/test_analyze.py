from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.cli import main
from tests.pipeline.raw import commit
from tests.pipeline.sources.logs import batch, write_segment


def forget(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a module be imported again. Afterwards, the old module is again in `sys.modules` and in its package."""
    package, _, short = name.rpartition(".")
    if hasattr(sys.modules.get(package), short):
        monkeypatch.setattr(sys.modules[package], short, sys.modules[name])  # an import replaces it
    monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """No module of Spark can be imported."""
    for name in [name for name in sys.modules if name.startswith(("muster.pipeline", "pyspark.", "py4j"))]:
        forget(monkeypatch, name)
    for name in ("pyspark", "py4j"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A log with one commit."""
    write_segment(tmp_path / "log", batch([commit(offset=5, commit_timestamp=1_750_000_000_000)], 0))
    return str(tmp_path / "log")


@pytest.mark.usefixtures("_without_spark")
def test_a_small_log_needs_no_spark(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", log, "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.endswith(f"tables: {tmp_path}/out/tables\n")


@pytest.mark.usefixtures("_without_spark")
def test_spark_is_named_where_it_is_needed_and_missing(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", log, "--out", str(tmp_path / "out"), "--master", "local[1]"]) == 1
    output = capsys.readouterr().err
    assert output.startswith("muster analyze: it needs Spark, and py")
    assert output.endswith(" is not installed: pip install 'muster-kafka[spark]'\n")


def test_another_missing_package_is_named(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "muster.pipeline.analyze" in sys.modules:
        forget(monkeypatch, "muster.pipeline.analyze")
    monkeypatch.setitem(sys.modules, "muster.pipeline.here", None)
    assert main(["analyze", log]) == 1
    assert capsys.readouterr().err.endswith(
        ", which is not installed: pip install 'muster-kafka[spark]'; for a small log, [explain] is enough\n"
    )


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
    assert "it needs muster.pipeline.analyze" in capsys.readouterr().err
