"""`muster serve --control` as a process, and the commands that use it. The commands run in this process: a start costs
0.2 s.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from muster.cli import main

COMMAND = [sys.executable, "-m", "muster.cli"]


@contextmanager
def serving(*more: str) -> Iterator[tuple[str, str]]:
    """The addresses of the server and of its test control."""
    words = [*COMMAND, "serve", "--in-memory", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", *more]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        address = process.stdout.readline().split()[2]
        control = ""
        while not control:
            line = process.stderr.readline()
            if "the control listens" in line:
                control = re.findall(r"127\.0\.0\.1:\d+", line)[0]
        yield address, control
    finally:
        process.terminate()
        process.communicate(timeout=30)


def muster(*words: str, control: str = "") -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([*words, *(["--control", control] if control else [])])
        except SystemExit as end:  # argparse refuses it
            status = int(end.code or 0)
    return status, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def one_node() -> Iterator[tuple[str, str]]:
    with serving("--virtual-time", "--topic", "orders:2") as found:
        yield found


def test_the_control_commands_change_faults_time_and_groups(one_node: tuple[str, str]) -> None:
    address, control = one_node
    status, said, _ = muster("time", "show", "--json", control=control)
    assert (status, json.loads(said)["frozen"]) == (0, True)
    status, said, _ = muster("time", "advance", "60000", "--json", control=control)
    assert json.loads(said)["ahead_ms"] > 50_000
    assert muster("time", "run-until", "idle", control=control)[0] == 0
    assert "frozen: false" in muster("time", "thaw", control=control)[1]

    words = ["--api", "ListGroups", "--error", "CLUSTER_AUTHORIZATION_FAILED", "--once", "--name", "no look"]
    assert muster("faults", "add", *words, control=control)[0] == 0
    assert muster("groups", "list", "--bootstrap-server", address)[0] == 1
    assert muster("groups", "list", "--bootstrap-server", address)[0] == 0
    status, said, _ = muster("faults", "log", control=control)
    assert "answered CLUSTER_AUTHORIZATION_FAILED" in said
    assert "no look" in muster("faults", "list", control=control)[1]
    status, said, _ = muster("faults", "start", "slow-coordinator", "group=g", "ms=5", "--json", control=control)
    assert json.loads(said)["parameters"] == {"group": "g", "ms": 5}
    assert "s1 slow-coordinator" in muster("faults", "scenarios", control=control)[1]
    assert muster("faults", "clear", control=control)[0] == 0
    assert muster("faults", "list", "--json", control=control)[1] == ""

    status, _, said = muster("groups", "wait-stable", "g", "--timeout-ms", "10", control=control)
    assert (status, "muster groups wait-stable: group g: this was not true after 0.01 s" in said) == (1, True)
    assert "there is no group g" in muster("groups", "rebalance", "g", control=control)[2]
    assert "there is no member 'm'" in muster("groups", "expire", "g", "m", control=control)[2]
    status, _, said = muster("groups", "wait-acknowledged", "g", "t", "--timeout-ms", "10", control=control)
    assert (status, "muster groups wait-acknowledged: group g: this was not true" in said) == (1, True)
    assert "nobody holds such records in group g" in muster("groups", "expire-locks", "g", control=control)[2]
    status, _, said = muster("groups", "deliver-again", "g", "t", "0", "5", control=control)
    assert (status, "no member of group g reads t-0 now" in said) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("faults add --api OffsetCommit --error NO", "muster faults add: then: NO is no error code of Kafka"),
        ("faults add --api Teapot --hold", "match: api Teapot is neither an API that is served nor one of"),
        ("faults add --cut --times -1", "when: times is -1; a number from 1 on was expected"),
        ("faults add --cut --with-probability 2", "when: with_probability is 2.0; a number from 0 to 1 was expected"),
        ("faults add --cut --times x", "argument --times: 'x' is no whole number"),
        ("faults add --delay 5 --every-ms 5", "then: every_ms means nothing to delay; ms, where does"),
        ("faults start slow-coordinator ms", "ms: NAME=VALUE was expected"),
        ("faults start slow-coordinator ms=soon", "ms is 'soon'; a number from 0 to 2147483647 was expected"),
        ("faults start zombie group=1", "zombie needs member"),
        ("faults start zombie grup=1", "grup means nothing to zombie; group, member, expire does"),
        ("time advance -- -5", "ms is -5; a whole number from 0 on was expected"),
        ("time run-until stable g --members -1", "members is -1; a whole number from 0 on was expected"),
        ("time run-until idle g", "condition is to be idle, or stable with a group"),
        ("groups wait-stable g --members -1", "members is -1; a whole number from 0 on was expected"),
        ("groups expire-locks g --topic t --offset 3", "an offset is given without its partition"),
        ("groups wait-stable g --timeout-ms -1", "timeout_ms is -1; a whole number from 0 on was expected"),
    ],
)
def test_a_wrong_value_of_a_control_command_ends_with_status_2(
    one_node: tuple[str, str], words: str, said: str
) -> None:
    first, _, rest = words.partition(" -- ")
    asked = [*first.split(), "--control", one_node[1], *(["--", rest] if rest else [])]
    status, _, error = muster(*asked)
    assert status == 2, error
    assert said in error


def test_a_control_address_that_cannot_be_used_is_reported() -> None:
    for at in ("here", "127.0.0.1:x", "127.0.0.1:99999"):
        status, _, error = muster("time", "show", control=at)
        assert (status, f"--control {at}: HOST:PORT was expected" in error) == (2, True)
    status, _, error = muster("time", "show", control="127.0.0.1:1")
    assert (status, "no control answers at 127.0.0.1:1" in error) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--control", "0.0.0.0:0"], "needs --control-token FILE"),
        (["--virtual-time"], "--virtual-time means something with --control only"),
        (["--control", "here"], "--control"),
        (["--control", "127.0.0.1:0", "--control-token", "no-such-file"], "--control-token no-such-file: No such file"),
        (["--control", "127.0.0.1:0", "--cluster", "postgresql://x"], "give one"),
    ],
)
def test_serve_refuses_impossible_control_options(words: list[str], said: str) -> None:
    # an impossible option is refused before anything starts
    status, _, error = muster("serve", *([] if "--cluster" in words else ["--in-memory"]), *words)
    assert status == 2
    assert said in error


def test_the_control_api_needs_its_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with serving("--control-token", str(token)) as (_, control):
        assert muster("time", "show", "--control-token", str(token), control=control)[0] == 0
        status, _, error = muster("time", "show", control=control)
        assert (status, "the token is missing" in error) == (1, True)


def test_the_nodes_commands_stop_and_return_a_node() -> None:
    with serving("--nodes", "2") as (_, control):
        assert " up " in muster("nodes", "list", control=control)[1]
        status, said, _ = muster("nodes", "kill", "2", "--json", control=control)
        assert [json.loads(line)["state"] for line in said.splitlines()] == ["up", "killed"]
        status, _, error = muster("nodes", "stop", "2", control=control)
        assert (status, "node 2 is killed" in error) == (1, True)
        assert muster("nodes", "return", "2", control=control)[0] == 0
