"""What tests of several folders share for a whole session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL; each test makes a cluster of its own in it."""
    with running_postgres() as url:
        yield url
