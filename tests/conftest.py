"""What tests of several folders share, and how they are shared out when two processes run them (`make test`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support import unseen_faults
from tests.support.postgres import running_postgres

# how long an example takes on a busy machine says nothing
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
unseen_faults.watch_event_loops()


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
