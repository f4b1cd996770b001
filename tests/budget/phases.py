"""Where the instructions of a request are: by phase, from the read of the socket to the answer. Writes bench/phases.md.

Each function belongs to one phase, by its module and name. So a function that two phases use counts for one of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.budget import figures
from tests.budget.counting import Stack
from tests.budget.scenes import SCENES, played

RESULT: Final = Path(__file__).resolve().parents[2] / "bench" / "phases.md"
KINDS: Final = (
    "heartbeat, alike",
    "heartbeat, not alike",
    "consumer group heartbeat, alike",
    "consumer group heartbeat, not alike",
    "commit, not alike",
    "commit, 10 partitions, not alike",
    "produce, 100 B",
    "produce, 1 MB",
    "fetch, 4 KB",
    "fetch, 4 KB, committed only",
    "fetch, 1 MB",
    "join, the only member of a new group",
    "sync, the leader",
    "init producer id",
    "transaction, first produce",
    "transaction, offset commit",
    "transaction, end",
    "transaction, later produce",
    "transaction, later offset commit",
    "transaction, later end",
    "transaction of version 1, add partitions",
    "transaction of version 1, add offsets",
)
PHASES: Final = (
    ("read", r"coordinator/net/connection\.py"),
    ("frame", r"coordinator/net/connection_core\.py|protocol/frames\.py"),
    ("answer", r".*: encode_\w*response|.*Response\w*\.__init__|.*: (_put_|uv)|coordinator/api/exchange\.py"),
    ("answer", r"coordinator/api/registry\.py: Route\.(frame|lower)|protocol/wire\.py: ended|.*: PendingReplies"),
    ("answer", r"protocol/messages/fetch\.py: PartitionData\.|coordinator/api/unsent\.py|.*: LeaderIdAndEpoch"),
    ("encode", r".*: encode_|.*record_codec|coordinator/log/records/(building|markers)\.py|protocol/records\.py"),
    ("encode", r".*(group|transaction)_records/|coordinator/groups/common/state\.py: (pack|offset_commit|size_of)"),
    ("decode", r"protocol/(messages|shapes|wire|message|embedded)"),
    ("check", r"coordinator/security|coordinator/topics/validation|coordinator/log/records|coordinator/quotas"),
    ("check", r"coordinator/log/producers/append_checks|coordinator/api/transactions/verification"),
    ("find", r"coordinator/api/(dispatch|registry|cached_\w+|repeated_requests|frame_layout|context)\.py"),
    ("find", r"coordinator/runtime/routing\.py"),
    ("find", r"coordinator/topics/(open_topics|cluster_image|fetch_sessions)|.*: led_here|protocol/(api|hashing)\.py"),
    ("evolve", r"coordinator/groups/common/(committed_offsets|state)\.py|coordinator/groups/core\.py: (_|replay|end_)"),
    ("evolve", r".*: State\.|.*: Transaction\.|coordinator/log/producers|.*/records\.py|.*/replay\.py"),
    ("decide", r"coordinator/(groups|transactions|assignors|state_machine|api|system/jobs)|assignors"),
    ("report", r"coordinator/history|coordinator/server/histories|.*/log_lines\.py"),
    ("sync", r"coordinator/log/(disk_)?durability\.py|coordinator/log/storage/shared_sync\.py|postgres/"),
    ("append", r"coordinator/(log|runtime|topics)/"),
)
"""The first pattern that matches "module: function" decides. What no pattern matches is `OTHER`."""
OTHER: Final = "other"
ORDER: Final = (
    "read", "frame", "find", "decode", "check", "decide", "evolve", "encode", "append", "sync", "report", "answer",
    OTHER,
)  # fmt: skip
DEAREST: Final = 4
HEAD: Final = """\
# Where the instructions of a request are

Written by `python -m tests.budget --phases`: CPython {python}. Instructions of Python for one request, by phase. In
`find`, the route, the group, the topic and a cached request are found. In `decide`, handlers and cores decide. `evolve`
changes the state of groups, transactions and producers. `encode` makes the bytes of records. `report` is for the
history and for log lines. `bench/budget.toml` has the totals.
"""


def phase_of(function: str) -> str:
    """The phase of a function, whose name is "module: function"."""
    return next((phase for phase, pattern in PHASES if re.match(pattern, function)), OTHER)


def by_phase(where: Mapping[str, float]) -> Counter[str]:
    """The instructions of each phase. `where`: the instructions of each function."""
    found: Counter[str] = Counter()
    for function, instructions in where.items():
        found[phase_of(function)] += round(instructions)
    return found


def page(where: Mapping[str, Mapping[str, float]]) -> str:
    """The text of the page. `where`: by kind of request, the instructions of each function."""
    lines = [HEAD.format(python=figures.PYTHON), *_row("request", "all", *ORDER), f"|---|{'---:|' * (len(ORDER) + 1)}"]
    for kind in KINDS:
        found = by_phase(where[kind])
        costs = [f"{found[phase]:,}" if found[phase] else "" for phase in ORDER]
        lines += _row(kind, f"{sum(found.values()):,}", *costs)
    lines += ["", "The functions with the most instructions:", ""]
    for kind in KINDS:
        dearest = list(where[kind].items())[:DEAREST]
        shown = ", ".join(f"`{name.rpartition(': ')[2]}` {instructions:.0f}" for name, instructions in dearest)
        lines.append(f"* {kind}: {shown}")
    return "\n".join([*lines, ""])


def _row(*cells: str) -> Sequence[str]:
    return [f"| {' | '.join(cells)} |"]


def by_function(stacks: Mapping[Stack, float]) -> dict[str, float]:
    """The instructions of each function itself, the dearest function first."""
    found: dict[str, float] = {}
    for stack, instructions in stacks.items():
        found[stack[-1]] = found.get(stack[-1], 0) + instructions
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def stacks_of_kinds() -> dict[str, Mapping[Stack, float]]:
    """Count all requests of `KINDS`: by kind, the instructions by stack. `Counter.explains` must be set."""
    found: dict[str, Mapping[Stack, float]] = {}
    for scene in SCENES:
        if "with" not in scene:
            found |= played(scene).where
    return {kind: found[kind] for kind in KINDS}


def write() -> None:
    """Count all requests of `KINDS`, and write the page."""
    where = {kind: by_function(stacks) for kind, stacks in stacks_of_kinds().items()}
    RESULT.write_text(page(where), encoding="utf-8")
