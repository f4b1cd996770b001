"""The `muster` command as a user runs it: a subprocess, its output and its exit status."""
# ruff: noqa: E501  # a table is read by its rows

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from muster.cli import main
from muster.cli.serve_messages import start_failure
from muster.coordinator.config import ConfigError, load
from muster.coordinator.system.host_names import CannotListen
from muster.version import VERSION, description
from tests.support.certificates import Authority
from tests.support.servers import free_port_pair

COMMAND = [sys.executable, "-m", "muster.cli"]
START_S = 30
Command = Callable[..., subprocess.CompletedProcess[str]]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "CLUSTER_ID"))}
    return {**kept, **(more or {})}


def run(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=START_S,
        cwd=cwd,
        env=environment(env),
        check=False,
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command that starts no server: in this process, which takes a tenth of the time of a new one."""
    monkeypatch.chdir(tmp_path)

    def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
        status = main([*arguments])
        output = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, output.out, output.err)

    return run_here


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


class Serving:
    """A running `muster serve`. It waits for the ready line, and ends the process with SIGTERM."""

    def __init__(self, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env=environment(env),
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        if not self.line:
            pytest.fail("the server did not start: " + self.process.communicate()[1])

    @property
    def port(self) -> int:
        return int(self.line.rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> tuple[str, list[dict[str, str]]]:
        """Stop the process: the rest of its stdout, and its log lines."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=START_S)
        assert self.process.returncode == 0, err
        assert "Traceback" not in err, err
        return out, [json.loads(line) for line in err.splitlines()]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    """Start servers, which are always stopped when the test ends."""
    started: list[subprocess.Popen[str]] = []

    class Started(Serving):
        def __init__(self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path = tmp_path) -> None:
            super().__init__(*arguments, cwd=cwd, env=env)
            started.append(self.process)

    yield Started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


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


def test_check_reports_who_may_connect_to_each_listener(here: Command, tmp_path: Path) -> None:
    authority = Authority()
    key = authority.signed("CN=server,O=Muster").pem(tmp_path / "key.pem")
    os.chmod(key, 0o644)
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=PLAINTEXT://127.0.0.1:1,OUT://:2,SSL://[::1]:3\nadvertised.listeners=OUT://b.example:4\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT,SSL:SSL\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={key}\nssl.client.auth=required\n"
    )
    file.chmod(0o644)  # the output has no passwords
    said = here("serve", "--check", "--config", str(file))
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines() == [
        "Listener PLAINTEXT is at 127.0.0.1:1 and speaks PLAINTEXT. Clients get the address 127.0.0.1:1.",
        "  It is not encrypted, and clients are not known: each is User:ANONYMOUS.",
        "Listener OUT is at :2 (every address of this machine) and speaks PLAINTEXT. Clients get the address b.example:4.",
        "  It is not encrypted, and clients are not known: each is User:ANONYMOUS.",
        "Listener SSL is at [::1]:3 and speaks SSL. Clients get the address [::1]:3.",
        "  It is encrypted (TLSv1.2 to TLSv1.3); its certificate is that of CN=server,O=Muster.",
        "  Clients need a certificate, which names them.",
        "Every connected client may do everything: there is no authorizer.class.name.",
        "warning: listener OUT: everyone who reaches it may connect, and others on the network can read all that clients send; use TLS, or "
        "listen on 127.0.0.1",
        "warning: listener SSL: without ssl.truststore, clients with a certificate of any authority of the system are "
        "trusted",
        f"warning: {key} has the server's key and can be read by every user of this machine; chmod o-r {key}",
    ]


def test_check_warns_of_passwords_readable_by_all(
    here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the current folder may have the data of a `make serve`, which causes another warning
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=SASL_PLAINTEXT://127.0.0.1:1\nsasl.enabled.mechanisms=PLAIN\n"
        "listener.name.sasl_plaintext.plain.sasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="hush";\n'
    )
    file.chmod(0o644)
    warning = f"warning: {file} has passwords and can be read by every user of this machine; chmod o-r {file}"
    said = here("serve", "--check", "--config", str(file))
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1] == warning
    file.chmod(0o600)
    assert warning not in here("serve", "--check", "--config", str(file)).stdout


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["ssl.keystore.location=no.jks", "ssl.keystore.password=hush"], "ssl.keystore.location no.jks cannot be read: No such file or directory"),
        (["ssl.keystore.type=PEM", "ssl.keystore.key=hush"], "ssl.keystore.key is given without ssl.keystore.certificate.chain; give both"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [[], ["--check"]])
def test_unusable_tls_settings_are_refused_in_one_sentence(
    here: Command, tmp_path: Path, overrides: list[str], sentence: str, more: list[str]
) -> None:
    words = [word for one in ["listeners=SSL://127.0.0.1:0", *overrides] for word in ("--override", one)]
    said = here("serve", *words, *more)
    assert (said.returncode, said.stdout, said.stderr) == (2, "", f"muster serve: listener SSL: {sentence}\n")
    assert not (tmp_path / "muster-data").exists()


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


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ("hush", "--user takes NAME:PASSWORD, or NAME:@FILE for a password in a file"),
        ("bob:@no", "--user: the file of the password of bob cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_user_option_is_refused_in_one_sentence(here: Command, user: str, sentence: str) -> None:
    said = here("serve", "--user", user)
    assert (said.returncode, said.stderr) == (2, f"muster serve: {sentence}\n")


def test_check_reports_who_can_log_in(here: Command) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    overrides = [
        "listeners=SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512", "connections.max.reauth.ms=5",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={module} required user_bob="hush";',
    ]  # fmt: skip
    said = here("serve", "--check", *[word for one in overrides for word in ("--override", one)])
    assert said.stdout.splitlines()[1:] == [
        "  It is not encrypted.",
        "  Clients say who they are by PLAIN, SCRAM-SHA-512.",
        "  PLAIN knows 1 user.",
        "  They say so again after 5 ms at most.",
        "Every connected client may do everything: there is no authorizer.class.name.",
    ]
    # such a server starts, as Kafka does; a client that asks gets the mistake in the answer
    assert (said.returncode, said.stderr) == (
        2,
        "muster serve: listener SASL_PLAINTEXT at :1: the passwords of PLAIN would be sent in the clear; use SASL_SSL, "
        "or listen on 127.0.0.1\n",
    )


def test_check_warns_of_records_sent_without_encryption(here: Command) -> None:
    overrides = ["listeners=SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms=SCRAM-SHA-512"]
    said = here("serve", "--check", *[word for one in overrides for word in ("--override", one)])
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1] == (
        "warning: listener SASL_PLAINTEXT: others on the network can read all that clients send; use TLS, or listen on 127.0.0.1"
    )


BEARER = "org.apache.kafka.common.security.oauthbearer"
HANDLER = "listener.name.s.oauthbearer.sasl.server.callback.handler.class"
JWKS = "sasl.oauthbearer.jwks.endpoint.url"
UNSIGNED = f"{BEARER}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ([], f"{JWKS} is missing, so no token could be checked; for tokens that nobody has signed, as in tests, say "
             f"{HANDLER}={UNSIGNED}"),
        ([f"{HANDLER}=org.example.Checks"],
         f"{HANDLER}=org.example.Checks is a class of Java, which cannot run here; expected "
         f"{BEARER}.OAuthBearerValidatorCallbackHandler, or {UNSIGNED} for tokens that nobody has signed"),
        ([f"{JWKS}=file:///none.json"], f"{JWKS}=file:///none.json cannot be used: No such file or directory"),
        ([f"{JWKS}=keys.json"], f"{JWKS} is no URL of a file, http or https; expected https://HOST/PATH or file:///PATH"),
        ([f"{JWKS}=ftp://u:hush@h/"], f"{JWKS} is no URL of a file, http or https; expected https://HOST/PATH or "
                                      "file:///PATH"),
        ([f"{JWKS}=https://h", "sasl.oauthbearer.jwt.validator.class=org.example.Checks"],
         "sasl.oauthbearer.jwt.validator.class=org.example.Checks cannot run here; leave it out"),
        ([f"{JWKS}=https://h", "sasl.oauthbearer.jwks.endpoint.refresh.ms=0"],
         "sasl.oauthbearer.jwks.endpoint.refresh.ms=0 is not valid; expected at least 1"),
        ([f"{JWKS}=https://h", "sasl.oauthbearer.sub.claim.name= "],
         "sasl.oauthbearer.sub.claim.name is empty; leave it out, or name a claim"),
        ([f"{JWKS}=https://h", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms=50000"],
         "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms is less than …retry.backoff.ms"),
        ([f"{JWKS}=https://h", f"listener.name.s.oauthbearer.sasl.jaas.config={BEARER}.OAuthBearerLoginModule required "
          'ssl.truststore.type="PEM" ssl.truststore.location="/none.pem";'],
         f"for {JWKS}: ssl.truststore.location /none.pem cannot be read: No such file or directory"),
        ([f"{HANDLER}={UNSIGNED}", f"listener.name.s.oauthbearer.sasl.jaas.config={BEARER}.OAuthBearerLoginModule "
          'required unsecuredValidatorAllowableClockSkewMs="x";'],
         "unsecuredValidatorAllowableClockSkewMs is not a whole number of at least 0"),
    ],
)  # fmt: skip
def test_unusable_token_settings_are_refused_in_one_sentence(overrides: list[str], sentence: str) -> None:
    listener = ["listeners=S://127.0.0.1:0", "listener.security.protocol.map=S:SASL_PLAINTEXT"]
    with pytest.raises(ConfigError) as caught:
        load(overrides=[*listener, "sasl.enabled.mechanisms=OAUTHBEARER", *overrides], in_memory=True)
    assert str(caught.value).removeprefix("listener S: ").removeprefix("listener S, ") == sentence
    assert "hush" not in str(caught.value)


def test_check_reports_whose_tokens_are_accepted(here: Command) -> None:
    overrides = [
        "listeners=S://127.0.0.1:1,T://127.0.0.1:2", "sasl.enabled.mechanisms=OAUTHBEARER",
        "listener.security.protocol.map=S:SASL_PLAINTEXT,T:SASL_PLAINTEXT", f"{HANDLER}={UNSIGNED}",
        f"listener.name.t.{JWKS}=http://idp.example/keys",
        "listener.name.t.oauthbearer.sasl.oauthbearer.expected.audience=a,b", "delegation.token.secret.key=hush",
    ]  # fmt: skip
    said = here("serve", "--check", *[word for one in overrides for word in ("--override", one)])
    lines = said.stdout.splitlines()
    assert said.returncode == 0
    assert "  Tokens of OAUTHBEARER are signed by any issuer, for a, b." in lines
    assert "Delegation tokens are made for clients that have authenticated, and used with SCRAM." in lines
    assert "hush" not in said.stdout
    assert lines[-3:] == [
        "warning: listener S: tokens of OAUTHBEARER need no signature, so each client is who it says it is; only for "
        "tests",
        "warning: listener T: the keys for tokens are fetched by http, so they can be exchanged on the way; use https",
        "warning: delegation.token.secret.key is given, but no listener has SCRAM: no token can be used",
    ]
