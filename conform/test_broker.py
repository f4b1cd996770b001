"""Each story and each probe as a test of a broker: `pytest --pyargs muster.conform --against HOST:PORT`.

`-k classic` plays one level, and `-k leave-batch` single stories. Without `--against` there is nothing to test.
"""

from __future__ import annotations

import asyncio

import pytest

from muster.client.connection import RequestFailed
from muster.client.kafka_client import read_command_config
from muster.conform import probes, session
from muster.conform.report import text
from muster.conform.results import Outcome, State
from muster.conform.session import Session, Wishes
from muster.coordinator.config import ConfigError
from muster.coordinator.config.listeners import parse_addresses, show

AGAINST = "--against"
SECURITY = "--muster-command-config"
_LISTED = pytest.StashKey[dict[str, str]]()
"""The level of each story and probe, by its id."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask the broker what it is, and make a test of each story and probe."""
    if metafunc.config.getoption(AGAINST) is None:
        metafunc.parametrize("name", [], ids=[])
        return
    try:
        found = asyncio.run(_begin(metafunc.config, Wishes()))
    except (ConfigError, RequestFailed) as failure:
        raise pytest.Collector.CollectError(str(failure)) from None
    levels = {one.story.name: one.level for one in found.plan.played}
    levels |= {one.id: one.level for one in found.plan.skipped}
    levels |= {one.id: session.WIRE for one in probes.all_probes(found.target.keys)}
    metafunc.config.stash[_LISTED] = levels
    metafunc.parametrize("name", list(levels), ids=[f"{level}/{name}" for name, level in levels.items()])


async def _begin(config: pytest.Config, wishes: Wishes) -> Session:
    (address,) = parse_addresses(config.getoption(AGAINST), AGAINST)[:1]
    return await session.begin(address, show(*address), read_command_config(config.getoption(SECURITY)), wishes)


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """Play what was chosen, all at once: the outcomes by id."""
    known = request.config.stash[_LISTED]
    chosen = [item.callspec.params["name"] for item in request.session.items if hasattr(item, "callspec")]
    levels = list(dict.fromkeys(known[name] for name in chosen if name in known))
    stories = [name for name in chosen if known.get(name, session.WIRE) != session.WIRE]
    # a run of single stories has no probes
    only = [] if session.WIRE in levels else stories

    async def play() -> dict[str, Outcome]:
        one = await _begin(request.config, Wishes(levels, only))
        report = await one.play(lambda _: None)
        return {outcome.id: outcome for outcome in report.outcomes}

    return asyncio.run(play())


def test_as_on_kafka(name: str, outcomes: dict[str, Outcome]) -> None:
    """It goes as on Apache Kafka."""
    outcome = outcomes[name]
    if outcome.state is State.SKIPPED:
        pytest.skip(outcome.why)
    if outcome.state is State.FAILED:
        pytest.fail("\n".join(text.failure(outcome)), pytrace=False)
