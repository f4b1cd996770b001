"""Writes the drawn parts of docs/ again, from the code.

    python -m tools.diagrams.draw [--check]

With --check, nothing is written, and the exit code is 1 when a page is stale. All other parts of a page are written by
hand.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.diagrams import client_rules, connections, groups, rooms, transactions
from tools.diagrams.pages import Parts, redrawn

DOCS = Path(__file__).parents[2] / "docs"
PAGES: dict[str, Parts] = {
    "dev/architecture.md": rooms.PARTS,
    "dev/groups.md": groups.PARTS,
    "dev/transactions.md": transactions.PARTS,
}
"""The drawn parts of each page."""
ON_SITE: dict[str, Parts] = {
    "client-lint.md": client_rules.ON_SITE,
    "dev/connections.md": connections.ON_SITE,
    "dev/groups.md": groups.ON_SITE,
    "dev/transactions.md": transactions.ON_SITE,
}
"""Large tables, which only the site of the docs shows: `<!-- on the site: NAME -->` stands for a table."""


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or check them (`--check`)."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.diagrams.draw", description="Draw what docs/ shows of the code."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when a page is stale")
    options = parser.parse_args(arguments)
    stale = 0
    for name, parts in PAGES.items():
        page = DOCS / name
        before = page.read_text(encoding="utf-8")
        after = redrawn(before, parts)
        if before == after:
            continue
        if options.check:
            print(f"docs/{name} is stale: the code is not what it shows; run `make format`", file=sys.stderr)
            stale = 1
        else:
            page.write_text(after, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
