"""How good the inference is: rebalances inferred from an offsets log, compared with the truth of the same run.

`python -m tests.pipeline.scoring DIR [--truth FILE] [--misses]`: DIR is a data directory of Muster, whose
`__group_events` are what is known; or any directory of segments and FILE the truth, in the form of the sample's
`truth.jsonl` (of its lines `rebalance`: group, generation, cause, trigger or null).
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame

from muster.pipeline.frames import in_this_process
from muster.pipeline.tables.build import build
from muster.pipeline.tables.commits import walk_of
from muster.pipeline.tables.event_rebalances import rebalance_rows
from muster.pipeline.tables.inferred_rebalances import inferred
from muster.pipeline.tables.inputs import EVENTS_TOPIC, Inputs, events
from tests.pipeline.engines import Engine, collected

NAMED: Final = (
    "member_joined",
    "member_left",
    "session_expired",
    "subscription_changed",
    "partitions_changed",
    "leader_rejoined",
)
"""The causes over which the mean is taken."""

Key = tuple[str, int, int]
"""Group, generation, and how many times the group has had that generation before."""


class One(NamedTuple):
    """A rebalance with the values that are scored."""

    cause: str | None
    trigger: str | None
    """The client id of the member that caused it."""
    start_ms: int | None = None


class Score(NamedTuple):
    """The results, as shares of 1."""

    precision: float
    recall: float
    cause: float
    mean_over_causes: float
    trigger: float
    rows: int
    by_cause: Mapping[str, float]
    confusion: Mapping[tuple[str, str], int]
    """How often each pair of true cause and inferred cause occurs."""

    def text(self) -> str:
        """The results as a table."""
        lines = [
            f"rebalances {self.rows}  precision {self.precision:.3f}  recall {self.recall:.3f}  cause {self.cause:.3f}"
            f"  mean over causes {self.mean_over_causes:.3f}  trigger {self.trigger:.3f}"
        ]
        lines += [f"  {cause:24} {share:.3f}" for cause, share in self.by_cause.items()]
        lines += [
            f"  {true:24} taken for {said:24} {count}"
            for (true, said), count in sorted(self.confusion.items())
            if true != said
        ]
        return "\n".join(lines)


def score(true: Mapping[Key, One], found: Mapping[Key, One]) -> Score:
    """Compare true and inferred rebalances. Causes are compared if both know the rebalance."""
    both = [key for key in true if key in found]
    confusion = Counter((str(true[key].cause), str(found[key].cause)) for key in both)
    totals = Counter(str(true[key].cause) for key in both)
    by_cause = {cause: confusion[cause, cause] / count for cause, count in sorted(totals.items())}
    named = [by_cause[cause] for cause in NAMED if cause in by_cause]
    known = [key for key in both if true[key].trigger is not None]
    return Score(
        _share(len(both), len(found)),
        _share(len(both), len(true)),
        _share(sum(confusion[cause, cause] for cause in totals), len(both)),
        _share(sum(named), len(named)),
        _share(sum(true[key].trigger == found[key].trigger for key in known), len(known)),
        len(true),
        by_cause,
        confusion,
    )


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 1.0


def numbered(rows: Iterable[tuple[str, int, int, One]]) -> dict[Key, One]:
    """Rows of group, generation, time (ms) and the rest by their keys."""
    seen: Counter[tuple[str, int]] = Counter()
    found: dict[Key, One] = {}
    for group, generation, _, one in sorted(rows, key=lambda row: row[:3]):
        found[group, generation, seen[group, generation]] = one
        seen[group, generation] += 1
    return found


def of_table(rows: DataFrame) -> dict[Key, One]:
    """A table of rebalances."""
    wanted = ("group", "generation", "end_ms", "cause", "trigger_client_id", "start_ms")
    return numbered(
        (row.group, row.generation, row.end_ms, One(row.cause, row.trigger_client_id, row.start_ms))
        for row in collected(rows.select(*wanted))
    )


def of_truth(path: Path, found: dict[Key, One]) -> dict[Key, One]:
    """The lines of a truth file. Rebalances that the file marks as unsure are removed from `found`."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["kind"] == "unsure":
            last = line["last"] or max((key[1] for key in found if key[0] == line["group"]), default=0)
            for generation in range(line["first"], last + 1):
                found.pop((line["group"], generation, 0), None)
    return numbered(
        (
            line["group"],
            line["generation"],
            line["settled"],
            One(line["cause"], (line["trigger"] or {}).get("client_id"), line.get("acted")),
        )
        for line in lines
        if line["kind"] == "rebalance"
    )


def read(engine: Engine, directory: Path) -> Inputs:
    """A directory of segments."""
    rows = engine.decoded(directory)
    has_events = any(directory.glob(f"**/{EVENTS_TOPIC}-*"))
    return Inputs(rows, events(engine.raw(directory, EVENTS_TOPIC)) if has_events else None)


def inferred_of(inputs: Inputs) -> DataFrame:
    """The rebalances that the offsets log alone shows."""
    return inferred(inputs, walk_of(inputs), build(inputs, ("silences",))["silences"])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--misses", action="store_true", help="print what was taken for something else")
    options = parser.parse_args()
    with in_this_process():
        inputs = read(Engine(), options.directory)
        found = of_table(inferred_of(inputs))
        if options.truth is not None:
            true = of_truth(options.truth, found)
        elif inputs.events is not None:
            true = of_table(rebalance_rows(inputs.events))
        else:
            parser.error("there are no __group_events: say --truth FILE")
    print(score(true, found).text())
    if options.misses:
        for key in sorted(true.keys() | found.keys()):
            if (was := true.get(key)) is None or (said := found.get(key)) is None or was.cause != said.cause:
                print(key, was, found.get(key))


if __name__ == "__main__":
    main()
