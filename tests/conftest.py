"""Fixtures of several folders, and how three processes divide the tests (`make test`)."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import sharing_out, unseen_faults
from tests.support.postgres import running_postgres

# on a busy machine the duration of an example says nothing
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
unseen_faults.watch_event_loops()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL. Each test makes a cluster of its own in this database."""
    with running_postgres() as url:
        yield url


def pytest_collection(session: pytest.Session) -> None:
    gc.disable()  # almost everything that is imported and collected now stays
    sharing_out.compile_apart(session.config)


def pytest_collection_finish() -> None:
    """No later garbage collection visits the million objects of modules and tests, which took a tenth of all time."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests run first, so that all processes end at about the same time."""
    items.sort(key=lambda item: sharing_out.rank(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> sharing_out.FileScheduling:
    """The scheduler that divides the tests between three processes."""
    return sharing_out.FileScheduling(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """A test fails at its end if an event loop or the log of a server has reported an error."""
    del item
    yield
    found = unseen_faults.take()
    if found:
        pytest.fail("\n".join(found), pytrace=False)
