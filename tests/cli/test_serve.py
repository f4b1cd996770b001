"""The `muster` command as a user runs it: a subprocess, its output and its exit status."""
# ruff: noqa: E501  # a table is read by its rows

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from muster.cli import main
from muster.cli.serve_messages import start_failure
from muster.coordinator.config import load
from muster.coordinator.system.host_names import CannotListen
from muster.version import VERSION, description
from tests.cli.command_harness import COMMAND, START_S, Serving, environment, run
from tests.support.servers import free_port_pair


@pytest.mark.parametrize("words", [("version",), ("serve", "--check"), ("nodes", "--help")])
def test_a_closed_pipe_behind_stdout_is_no_failure(words: tuple[str, ...]) -> None:
    """`muster serve --check | head -1` closes a pipe like this."""
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb") as gone:
        done = subprocess.run(
            [*COMMAND, *words], stdout=gone, stderr=subprocess.PIPE, text=True, timeout=START_S, env=environment()
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stdout_closed_from_the_start_is_no_failure() -> None:
    """A shell closes stdout like this for `>&-`."""
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "serve", "--check"], stderr=subprocess.PIPE, text=True,
        timeout=START_S, env=environment(),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_version_is_printed_by_command_and_option() -> None:
    assert run("version").stdout == run("--version").stdout == f"{description()}\n"
    assert description() == f"muster {VERSION}"


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"]])
def test_help_of_serve_has_examples(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "muster serve --in-memory --listen 127.0.0.1:0" in text


def test_muster_without_a_command_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "muster serve" in capsys.readouterr().err


def test_serve_does_not_import_other_commands() -> None:
    code = "import sys; from muster.cli import build_parser; build_parser('serve'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"muster.cli.transactions", "muster.cli.analyze"} & set(loaded)


def test_help_and_version_load_nothing_of_the_server() -> None:
    code = "import sys; from muster.cli import main; main(['version']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(out.split())
    assert not {"asyncio", "structlog", "aiokafka", "muster.protocol", "muster.coordinator.config"} & loaded


@pytest.mark.parametrize("module", ["read_groups", "offsets", "reset_offsets", "delete_groups", "option_values"])
def test_commands_of_groups_load_nothing_of_the_server(module: str) -> None:
    code = f"import sys; import muster.cli.groups.{module}; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert (
        not {"asyncio", "ssl", "structlog", "aiokafka", "muster.coordinator.log", "muster.coordinator.groups"} & loaded
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", "--listen", "::1:9092"], "muster serve: --listen '::1:9092' is not HOST:PORT; an IPv6 host goes in brackets"),
        (["serve", "--listen", "localhost:99999"], "muster serve: --listen 'localhost:99999': the port 99999 is not between"),
        (["serve", "--topic", "orders"], "muster serve: --topic 'orders' is not NAME:PARTITIONS, as in --topic orders:8"),
        (["serve", "--override", "num.partition=3"], "muster serve: unknown property num.partition (--override)"),
        (["serve", "--override", "num.partitions=0"], "muster serve: num.partitions: '0' (--override) is not valid"),
        (["serve", "--config", "no-such-file"], "muster serve: the configuration file no-such-file cannot be read"),
        (["serve", "--data-dir", ""], "muster serve: argument --data-dir: '' names no directory"),
        (["serve", "--in-memory", "--data-dir", "x"], "muster serve: argument --data-dir: not allowed with argument --in-memory"),
        (["serve", "--log-level", "loud"], "muster serve: argument --log-level: invalid choice: 'loud'"),
        (["serve", "--lisen", ":1"], "muster serve: unrecognized arguments: --lisen :1; did you mean --listen? See"),
        (["sevre"], "muster: there is no command 'sevre'; did you mean serve? See muster --help"),
        (["health", "localhost"], "muster health: the address 'localhost' is not HOST:PORT; as in localhost:9092"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_one_sentence_and_status_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("KAFKA_")]:
        monkeypatch.delenv(name)
    try:
        status: object = main(arguments)
    except SystemExit as error:
        status = error.code
    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_serve_prints_one_line_to_stdout_and_json_to_stderr(serving: Callable[..., Serving], tmp_path: Path) -> None:
    server = serving("--listen", "127.0.0.1:0", "--topic", "orders:2", "--override", "num.io.threads=3",
                     "--override", "group.share.min.session.timeout.ms=1000")  # fmt: skip
    assert re.fullmatch(r"muster ready 127\.0\.0\.1:\d+\n", server.line)
    assert run("health", f"127.0.0.1:{server.port}").returncode == 0
    out, lines = server.stop()
    assert out == ""
    assert all({"event", "level", "timestamp", "logger"} <= line.keys() for line in lines)
    unused = [line for line in lines if "have no effect here" in line["event"]]
    assert [line["properties"] for line in unused] == ["num.io.threads"]
    assert (tmp_path / "muster-data" / "orders-1").is_dir()


def test_serve_reads_the_environment_and_warns_of_unused_variables(serving: Callable[..., Serving]) -> None:
    env = {
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_NUM_PARTITION": "3",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
    }
    _, lines = serving("--in-memory", env=env).stop(signal.SIGINT)
    warnings = [line["event"] for line in lines if line["level"] == "warning"]
    assert any("KAFKA_NUM_PARTITION" in event for event in warnings)
    assert any("CONTROLLER" in event for event in warnings)


def test_serve_logs_nothing_at_level_error(serving: Callable[..., Serving]) -> None:
    assert serving("--in-memory", "--listen", "127.0.0.1:0", "--log-level", "ERROR").stop() == ("", [])


def test_serve_in_memory_writes_no_files(serving: Callable[..., Serving], tmp_path: Path) -> None:
    serving("--in-memory", "--listen", "127.0.0.1:0", "--topic", "t:1").stop()
    assert list(tmp_path.iterdir()) == []


def failed(result: subprocess.CompletedProcess[str]) -> str:
    """The only error sentence of a start that failed."""
    assert result.returncode == 1, result.stderr
    assert result.stdout == ""
    sentences = [line for line in result.stderr.splitlines() if not line.startswith("{")]
    assert len(sentences) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return sentences[0]


def test_serve_reports_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        output = failed(run("serve", "--in-memory", "--listen", where))
    assert output.startswith(f"muster serve: cannot listen on {where}: the port is in use")


@pytest.mark.parametrize("option", ["--http", "--metrics", "--control"])
def test_serve_names_the_option_with_the_port_in_use(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        output = failed(run("serve", "--in-memory", "--listen", "127.0.0.1:0", option, where))
    why = "the port is in use; stop the program that has it, or give another with"
    assert output == f"muster serve: cannot listen on {where} ({option}): {why} {option}"


def test_serve_names_the_listener_with_the_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        listeners = f"listeners=A://127.0.0.1:0,B://{where}"
        protocols = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
        output = failed(run("serve", "--in-memory", "--override", listeners, "--override", protocols))
    assert output.startswith(f"muster serve: cannot listen on {where} (listener B): the port is in use; ")
    assert output.endswith("give another with the property listeners")


def test_serve_names_the_broker_with_the_port_in_use() -> None:
    port = free_port_pair()
    with socket.create_server(("127.0.0.1", port + 1)):
        output = failed(run("serve", "--in-memory", "--nodes", "2", "--listen", f"127.0.0.1:{port}"))
    assert output.startswith(
        f"muster serve: cannot listen on 127.0.0.1:{port + 1} (broker 2 of --nodes 2): the port is in"
    )


def test_serve_refuses_an_address_of_another_machine() -> None:
    output = failed(run("serve", "--in-memory", "--listen", "192.0.2.1:0"))
    assert output.startswith("muster serve: cannot listen on 192.0.2.1:0: it is not an address of this machine")


def test_serve_refuses_a_data_directory_in_use(serving: Callable[..., Serving], tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = serving("--listen", "127.0.0.1:0", "--data-dir", str(data))
    output = failed(run("serve", "--listen", "127.0.0.1:0", "--data-dir", str(data)))
    assert output.startswith(f"muster serve: the data directory {data} is in use by process {server.process.pid}")
    server.stop()


def test_serve_refuses_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    output = failed(run("serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")))
    assert f"{tmp_path / 'data'} cannot be used: it is a file; give a directory with --data-dir" in output


def test_a_damaged_metadata_log_is_named_with_what_to_do(serving: Callable[..., Serving], tmp_path: Path) -> None:
    serving("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)).stop()
    segment = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    said = failed(run("serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))).splitlines()[-1]
    assert said.startswith(f"muster serve: {segment} is damaged at byte ")
    assert "the CRC of the batch at offset " in said
    repair = f"muster log repair {tmp_path} --partition __cluster_metadata-0"
    assert said.endswith(
        f"; stop, then `muster log check {tmp_path}` and `{repair}`, or restore the folder from a backup"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_serve_refuses_an_unwritable_data_directory(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    output = failed(run("serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")))
    assert "Permission denied" in output


def at(error: OSError, purpose: str = "PLAINTEXT", port: int = 80) -> CannotListen:
    try:
        raise CannotListen(error, "::1", port, purpose) from error
    except CannotListen as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/data"), "/data cannot be used: Permission denied; give a writable"),
        (PermissionError(errno.EACCES, "Permission denied", "meta.properties"), f"{Path.cwd()}/muster-data/meta.properties cannot"),
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), "/data/x cannot be used: No space left on device"),
        (at(PermissionError(errno.EACCES, "Permission denied")), "cannot listen on [::1]:80: this user is not allowed to; give a port above 1023 with --listen"),
        (at(socket.gaierror(-2, "Name or service not known")), "cannot listen on [::1]:80: the host is not known; give an address of this machine with --listen"),
        (at(OSError(errno.EADDRINUSE, "Address already in use"), "--metrics", 9095), "cannot listen on [::1]:9095 (--metrics): the port is in use; stop the program that has it, or give another with --metrics"),
        (at(OSError(errno.EADDRINUSE, "Address already in use"), "--metrics"), "cannot listen on [::1]:80 (--metrics): listener PLAINTEXT of this server has that port; give another with --metrics"),
        (at(OSError(errno.EADDRNOTAVAIL, "Cannot assign"), "--control", 9095), "cannot listen on [::1]:9095 (--control): it is not an address of this machine; give one that is with --control"),
        (at(OSError(errno.ENOBUFS, "No buffer space available")), "cannot listen on [::1]:80: No buffer space available; give another address with --listen"),
        (OSError(errno.EMFILE, "Too many open files"), "cannot start: Too many open files"),
    ],
)  # fmt: skip
def test_each_cause_of_a_failed_start_is_described(error: OSError, words: str) -> None:
    assert start_failure(error, load(listen="[::1]:80")).startswith(words)


def test_a_configuration_without_tls_and_door_imports_no_code_of_theirs() -> None:
    """A start without security must not become slower."""
    look = (
        "import sys; from muster.coordinator.config import load; from muster.coordinator import server; load();"
        "print([name for name in sys.modules if name.startswith(('cryptography', 'jwt', 'muster.coordinator.net.tls',"
        " 'starlette', 'uvicorn', 'h11', 'anyio', 'muster.coordinator.http', 'muster.coordinator.server.metrics'))"
        " or name in ('muster.coordinator.config.security', 'muster.coordinator.config.security', 'muster.coordinator.security.ssl_principal')"
        " or name.startswith('muster.coordinator.security.sasl')])"
    )
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_users_of_the_command_line_exist_from_the_start(serving: Callable[..., Serving], tmp_path: Path) -> None:
    """A password is shown nowhere, and a changed password stays."""
    (tmp_path / "secret").write_text("from a file\n")
    overrides = ["listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512"]
    words = [word for one in overrides for word in ("--override", one)]
    for password in "hush", "another":
        server = serving(*words, "--data-dir", "data", "--user", f"bob:{password}", "--user", "eve:@secret")
        for mechanism in "SCRAM-SHA-256", "SCRAM-SHA-512":
            for user, known in ("bob", "hush"), ("eve", "from a file"):
                settings = {
                    "bootstrap.servers": server.line.split()[2], "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": known,
                }  # fmt: skip
                assert Producer(settings, logger=None).list_topics(timeout=30).brokers
        _, lines = server.stop()
        assert "hush" not in str(lines)
