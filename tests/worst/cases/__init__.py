"""The largest requests of each API over the state of `state`, in the newest shape.

A case is named by its API. It gives requests for a number of rows; `most` is how many rows the limits admit
(docs/limits.md). A new API needs its cases in a module of this package: a test fails until then. Besides, each array of
each request is filled by itself (`arrays`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

from bench.largest_requests import arrays_of, request_for
from muster.coordinator.api.registry import SERVED
from muster.protocol.api import api
from muster.protocol.message import Message
from tests.worst.cases import configs, groups, records, security, topics, transactions
from tests.worst.cases.case import BYTES, Case

CASES: Final[dict[str, tuple[Case, ...]]] = {
    **records.CASES,
    **topics.CASES,
    **configs.CASES,
    **security.CASES,
    **groups.CASES,
    **transactions.CASES,
}
"""The cases by the API's name. `arrays` makes the cases that need no state."""


NEW: Final = {
    "Metadata": 10_000, "CreateTopics": 10_000, "CreatePartitions": 10_000, "ShareGroupHeartbeat": 20_000,
    "AlterShareGroupOffsets": 5_000, "DeleteShareGroupOffsets": 5_000,
}  # fmt: skip
"""The most topics or partitions that one request creates or names; a larger request is refused as a whole."""


def most_rows(key: int) -> int:
    """How many rows with long names a request may have."""
    return NEW.get(api(key).name, BYTES // 220)


def arrays(key: int) -> Iterator[tuple[str, Callable[[int], Message]]]:
    """Each array that a request of this API has. Its function fills the array with different rows with long names."""
    name = api(key).name
    module = import_module("muster.protocol.messages." + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    root: Any = getattr(module, f"{name}Request")
    for path, _ in arrays_of(module, root):

        def filled(count: int, path: tuple[str, ...] = path) -> Message:
            made: Message = request_for(module, root, path, lambda i: f"{i:07}".rjust(200, "x"), count)
            return made

        yield ".".join(path), filled


def versions(key: int, case: Case | None = None) -> set[int]:
    """The newest version that is served and the oldest one."""
    served = SERVED[key]
    oldest = served.served_from if case is None or case.oldest is None else case.oldest
    return {oldest, served.max_version}
