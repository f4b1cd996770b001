"""How much of what the pipeline reports is true: its tables of kept logs of real Kafkas, compared with the truth of
each.

`python -m tests.pipeline.scores [NAME...] [--misses] [--rows DIR] [--mutated]` (`make score`): works from
tests/data/recorded, or from those of its archives that are named; docs/dev/pipeline-scores.md explains the figures. It
needs neither Spark nor Kafka nor network. `--misses` prints each wrong report (but not of the logs that are held out).
`--rows` keeps the tables as lines of JSON.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from muster.pipeline.explain.inputs import inputs_of, log_of_path
from muster.pipeline.frames import DataFrame, frame_of, in_this_process, rows_of_frame
from muster.pipeline.tables.build import MADE, build
from muster.pipeline.tables.epoch_states import epochs_in
from muster.pipeline.tables.inputs import Inputs
from muster.pipeline.whatif.job import what_if
from muster.pipeline.whatif.settings import DEFAULT_GRID
from tests.pipeline.mutations import Log, all_at_once, log_in
from tests.pipeline.scores_claims import acts
from tests.pipeline.scores_parts import FALSE, JUDGED, PARTS, Figure, Row, Tables
from tests.pipeline.scores_seen import seen

KEPT: Final = Path(__file__).parents[1] / "data" / "recorded"
HOLD_OUT: Final = "hold-out"
"""Logs of this name are for figures only: nobody looks at their wrong reports."""
BESIDE: Final = 6
"""A table has the figures of at most this many logs."""
_ASKED: Final = (
    "rebalances", "regressions", "stalls", "lag", "episodes", "verdicts", "memberships", "commits", "generations",
    "silences",
)  # fmt: skip
_UNSCORED: Final = ("memberships", "silences")


def rows_of(rows: DataFrame) -> list[Row]:
    """All rows as plain values."""
    return [dict(row) for row in rows_of_frame(rows)]


def inputs_of_rows(log: Log) -> Inputs:
    """The rows of a log that no broker has written (`mutations`). The caller is in the block `in_this_process`."""
    rows = frame_of(log.rows)
    kinds = Counter(log.rows["kind"].to_pylist())
    return Inputs(rows, ends=frame_of(log.ends), epochs=epochs_in(rows, kinds, lambda: log.names))


def tables_of(inputs: Inputs) -> Tables:
    """The tables that are scored, and those that show what of the truth was so (`scores_seen`)."""
    wanted = [name for name in _ASKED if name in MADE]
    tables = build(inputs, wanted)
    known = (tables[name] for name in ("memberships", "rebalances", "commits", "silences"))
    reported = what_if(inputs, DEFAULT_GRID, *known)["advice"]
    return {name: rows_of(tables[name]) for name in wanted if name not in _UNSCORED} | {"advice": rows_of(reported)}


def unpacked(archive: Path, into: Path) -> tuple[Path, list[dict[str, Any]]]:
    """The log of an archive, and the truth about it."""
    with tarfile.open(archive) as files:
        files.extractall(into, filter="data")
    return into / "log", [*_lines(into / "truth.jsonl"), *acts(_lines(into / "journal.jsonl"))]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read(archive: Path) -> tuple[Tables, list[dict[str, Any]]]:
    """The scored tables of an archive, and its truth."""
    with tempfile.TemporaryDirectory() as directory:
        log, truth = unpacked(archive, Path(directory))
        with in_this_process():
            return tables_of(inputs_of(log_of_path(str(log)))), truth


def read_mutated(archive: Path) -> tuple[Tables, list[dict[str, Any]]]:
    """The scored tables of an archive as `all_at_once` changes it, and its truth."""
    with tempfile.TemporaryDirectory() as directory:
        log = all_at_once(log_in(*unpacked(archive, Path(directory))))
        with in_this_process():
            return tables_of(inputs_of_rows(log)), log.truth


def figures(tables: Tables, truth: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """The figures of all parts."""
    known = seen(truth, tables.get("commits", ()), tables.get("generations", ()))
    return [figure for part in PARTS for figure in part(tables, known)]


def shown(all_figures: Mapping[str, Sequence[Figure]], *, misses: bool) -> str:
    """The figures as tables: a line for each figure, a column for each log. Missed goals are marked."""
    names = list(all_figures)
    lines = [
        line
        for first in range(0, len(names), BESIDE)
        for line in _table({name: all_figures[name] for name in names[first : first + BESIDE]})
    ]
    every = [figure for name in names for figure in all_figures[name]]
    false = sum(len(one.misses) for one in every if one.title == FALSE)
    judged = round(sum(one.value or 0 for one in every if one.title == JUDGED))
    if judged:
        lines.append(f"all logs: {100 * false / judged:.1f} {FALSE} ({false} of {judged})")
    reached = [one.reached for name in names for one in all_figures[name] if one.reached is not None]
    lines.append(f"{sum(reached)} of {len(reached)} goals reached; ! marks what misses its goal")
    for name in names if misses else ():
        if HOLD_OUT not in name:
            lines += [f"{name}: {figure.title}: {miss}" for figure in all_figures[name] for miss in figure.misses]
    return "\n".join(lines)


def _table(all_figures: Mapping[str, Sequence[Figure]]) -> list[str]:
    names = list(all_figures)
    titles = list(dict.fromkeys(figure.title for one in all_figures.values() for figure in one))
    width = max(map(len, titles), default=0)
    lines = ["  ".join([" " * width, *(f"{name:>18}" for name in names), "goal"])]
    for title in titles:
        some = [next((one for one in all_figures[name] if one.title == title), None) for name in names]
        reported = [f"{'' if one is None else _marked(one):>18}" for one in some]
        wanted = next((one.wanted for one in some if one is not None), "")
        lines.append("  ".join([f"{title:<{width}}", *reported, wanted]).rstrip())
    return lines


def _marked(figure: Figure) -> str:
    return f"! {figure}" if figure.reached is False else str(figure)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="archives, without .tar.xz; default: all")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--mutated", action="store_true", help="also read each log as a mutation changes it")
    options = parser.parse_args()
    known = {path.name.removesuffix(".tar.xz"): path for path in sorted(KEPT.glob("*.tar.xz"))}
    paths = [known.get(name) or Path(name) for name in options.names or known]
    found = {}
    for suffix, make in (("", read), *([("~", read_mutated)] if options.mutated else [])):
        for path, (tables, truth) in zip(paths, map(make, paths), strict=True):
            name = path.name.removesuffix(".tar.xz") + suffix
            found[name] = figures(tables, truth)
            if options.rows is not None:
                _keep(options.rows / name, tables)
    print(shown(found, misses=options.misses))


def _keep(directory: Path, tables: Tables) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        lines = (json.dumps(row, default=str) + "\n" for row in rows)
        (directory / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
