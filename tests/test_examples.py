"""The examples run as printed, on a running server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.assignors.assignor import Member, Topic
from muster.assignors.custom import load as load_strategy
from muster.coordinator.config import Listener, load
from tests.support.servers import QUICK, MusterServer

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = MusterServer(tmp_path_factory.mktemp("examples"), {**QUICK, "num.partitions": "8"}, in_memory=True)
    server.start()
    yield server.bootstrap
    server.stop()


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_by_size_runs_on_a_server(bootstrap: str) -> None:
    assert run(str(EXAMPLES / "by_size.py"), bootstrap) == f"two share {list(range(8))}\n"


def test_the_example_rendezvous_moves_only_necessary_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """examples/rendezvous.py on a server: tests/coordinator/config/test_assignors.py."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    members = [Member(name, ("t",)) for name in "abc"]
    before = load_strategy("rendezvous:Rendezvous").assign(members, {"t": Topic(30)})
    after = load_strategy("rendezvous:Rendezvous").assign(members[:2], {"t": Topic(30)})
    assert sorted(one for share in before.values() for one in share["t"]) == [*range(30)]
    assert all(set(before[name]["t"]) <= set(after[name]["t"]) for name in "ab")


def test_the_example_server_properties_is_valid() -> None:
    config = load(file=EXAMPLES / "server.properties")
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092, "localhost", 9092),)
    assert config.value("group.initial.rebalance.delay.ms") == 0


def test_each_example_is_run_by_a_test() -> None:
    """A test in this module, the test of the README, the analysis for the notebook, or the tools of the example's
    language.
    """
    elsewhere = (
        "test_readme.py",
        "pipeline/test_analyze.py",
        "conformance/test_languages.py",
        "testing/test_recipes.py",
        "e2e/test_cluster_page.py",
        "conform/test_pytest_form.py",
    )
    places = [Path(__file__), *(ROOT / "tests" / place for place in elsewhere)]
    tests = "".join(place.read_text(encoding="utf-8") for place in places)
    assert [name for name in os.listdir(EXAMPLES) if name not in tests and not name.startswith("__")] == []
