"""`muster conform` on a Kafka 4.4 and on a Muster: with each set of settings, nothing differs, and nothing is left.

Together all stories are played. Beside each broker a busy process takes a part of the CPU.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.conform import catalogue
from muster.conform.results import Report, State
from muster.conform.session import Wishes, run
from muster.conform.settings import MAIN, SETS
from tests.support.servers import KafkaServer, MusterServer, ServerProcess

pytestmark = pytest.mark.timeout(1200)
SERVERS = {"kafka": KafkaServer, "muster": MusterServer}
REPEATED = 10
"""How often all levels are played in a row on one broker."""


def _spin() -> None:
    while True:
        pass


@pytest.fixture(autouse=True)
def load() -> Iterator[None]:
    """A process that uses a core."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    yield
    process.kill()
    process.join()


def report_on(server: ServerProcess, times: int = 1) -> list[Report]:
    server.start()
    try:
        return [asyncio.run(run(server.address, Wishes(may_alter=True))) for _ in range(times)]
    finally:
        server.stop()


def failures(report: Report) -> list[str]:
    return [f"{one.id}\n{one.diff}" for one in report.outcomes if one.state is State.FAILED] + [*report.left]


@pytest.mark.parametrize("name", SERVERS)
def test_all_stories_and_probes_are_as_on_kafka(name: str, tmp_path: Path) -> None:
    played: set[str] = set()
    for settings, properties in SETS.items():
        (report,) = report_on(SERVERS[name](tmp_path / settings, properties))
        assert failures(report) == []
        assert report.release == "4.4"
        played |= {one.id for one in report.outcomes if one.state in (State.PASSED, State.FLAKY)}
    assert {story.name for story in catalogue.stories()} <= played


@pytest.mark.timeout(3000)
def test_ten_runs_in_a_row_on_kafka_are_green(tmp_path: Path) -> None:
    reports = report_on(KafkaServer(tmp_path, MAIN), REPEATED)
    assert [failures(report) for report in reports] == [[]] * REPEATED
