"""What tests of several folders share, and how they are shared out when two processes run them (`make test`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import unseen_faults
from tests.support.postgres import running_postgres

# how long an example takes on a busy machine says nothing
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
unseen_faults.watch_event_loops()

PLAYED_AGAIN = pytest.StashKey[list[str]]()
"""The stories that differed over TCP and were played once more, by name."""
_FROM_WORKER = "played_again"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL; each test makes a cluster of its own in it."""
    with running_postgres() as url:
        yield url


# before pytest-xdist reads the marks, so not last
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file stay together, so that what they share is made once; all that need Spark share one."""
    for item in items:
        needs = getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("spark" if "spark" in needs else str(item.path)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A fault that an event loop or the log of a server reported fails the test, when all of it has ended."""
    del item
    yield
    found = unseen_faults.take()
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that ran a share of the tests gives what it noted to the one that started it."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    again = session.config.stash.get(PLAYED_AGAIN, None)
    if output is not None and again is not None:
        output[_FROM_WORKER] = again


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process with a share of the tests has ended (pytest-xdist)."""
    again = getattr(node, "workeroutput", {}).get(_FROM_WORKER)
    if again is not None:
        node.config.stash[PLAYED_AGAIN] = again


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How many stories were played again, also when it was none."""
    again = config.stash.get(PLAYED_AGAIN, None)
    if again is not None:
        terminalreporter.write_line(f"stories played again as they differed: {len(again)} {' '.join(again)}".rstrip())
