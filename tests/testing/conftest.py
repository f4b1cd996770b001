"""The servers of `muster.testing`, in threads and in processes, log no traceback: a traceback fails the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.testing.server_lines import Line, ServerLines
from tests.support import unseen_faults


@pytest.fixture(scope="session", autouse=True)
def watched_lines() -> Iterator[None]:
    """Each line of each server's log is checked."""
    add = ServerLines.add

    def looks(lines: ServerLines, line: Line) -> None:
        add(lines, line)
        if line.facts.get("exception") or line.facts.get("exc_info") or "Traceback (most recent" in line.text:
            unseen_faults.note(f"a server of muster.testing logged {line} {line.facts}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerLines, "add", looks)
        yield
