"""`python -m tests.budget`: what each kind of request costs, written to `bench/budget.toml`.

Without `--why` only figures that became smaller, or that are new, are written. With `--check` or `--explain` nothing
is written. With `--phases` only bench/phases.md is written, with `--flames` only flame graphs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.budget import figures, flames, phases
from tests.budget.counting import Cost, Counter
from tests.budget.scenes import SCENES, costs_of, played, quiet


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.budget", description=__doc__)
    parser.add_argument("--why", help="why figures became larger; it is kept beside them")
    parser.add_argument(
        "--explain", metavar="KIND", help="print the instructions of each function for a kind of request"
    )
    parser.add_argument("--phases", action="store_true", help="write the table of phases, bench/phases.md")
    parser.add_argument(
        "--flames", metavar="DIR", type=Path, help="write a flame graph of each request of bench/phases.md into DIR"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a figure is not its budget")
    options = parser.parse_args(arguments)
    if options.explain is not None:
        return explain(options.explain)
    if options.phases or options.flames:
        Counter.explains = True
        with quiet():
            if options.phases:
                phases.write()
            else:
                flames.write(options.flames, phases.stacks_of_kinds())
        return 0
    why = options.why
    budget = figures.read()
    before = budget.costs.get(figures.PYTHON, {})
    with quiet():
        now = {kind: cost for scene in SCENES for kind, cost in costs_of(scene).items()}
    if options.check:
        return check(now, before)
    raised: list[figures.Raised] = []
    costs: dict[str, Cost] = {}
    for kind, cost in now.items():
        allowed = before.get(kind, cost)
        dearer, cheaper = figures.larger(cost, allowed), figures.smaller(cost, allowed)
        for name, (limit, measured) in (dearer | cheaper).items():
            print(f"{kind}: {name} {limit:g} -> {measured:g}")
        raised += [figures.Raised(figures.PYTHON, kind, name, *rows, why or "") for name, rows in dearer.items()]
        if dearer and why is None:
            cost = Cost(*map(min, cost, allowed))
        costs[kind] = cost if dearer or cheaper else allowed
    if raised and why is None:
        print('some figures are larger; if there is a reason: --why "..."', file=sys.stderr)
        raised = []
    figures.write(figures.Budget(budget.costs | {figures.PYTHON: costs}, budget.raised + raised))
    return 0


def check(now: dict[str, Cost], allowed: dict[str, Cost]) -> int:
    """Print each figure that is not its budget, and what to do. Returns the exit status."""
    if now.keys() != allowed.keys():
        print("the kinds of requests are not those of bench/budget.toml:", *sorted(now.keys() ^ allowed.keys()))
        return 1
    dearer = {kind: rows for kind, cost in now.items() if (rows := figures.larger(cost, allowed[kind]))}
    cheaper = {kind: rows for kind, cost in now.items() if (rows := figures.smaller(cost, allowed[kind]))}
    for what, kinds in (
        ('it is dearer and needs a reason, python -m tests.budget --why "..."', dearer),
        ("it is cheaper and its budget must follow, python -m tests.budget", cheaper),
    ):
        for kind, rows in kinds.items():
            for name, (limit, measured) in rows.items():
                print(f"{kind}: {name} {limit:g} -> {measured:g}; {what}")
    return 1 if dearer or cheaper else 0


def explain(kind: str) -> int:
    """Print where the instructions of a kind of request are."""
    Counter.explains = True
    with quiet():
        for scene in SCENES:
            where = played(scene).where
            if kind in where:
                for name, instructions in phases.by_function(where[kind]).items():
                    print(f"{instructions:9.1f}  {name}")
                return 0
    print(f"there is no kind {kind!r}; bench/budget.toml lists them", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
