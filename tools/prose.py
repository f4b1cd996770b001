"""Whether the prose of README.md and docs/ is at most 120 columns wide: `make lint` runs it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
COLUMNS: Final = 120


def too_wide(text: str) -> list[tuple[int, str]]:
    """Number and text of the lines that are. Rows of tables and code may be wider: Markdown cannot break them."""
    prose = re.sub(r"(?ms)^```.*?^```", lambda code: "\n" * code[0].count("\n"), text)
    lines = enumerate(prose.split("\n"), 1)
    return [(number, line) for number, line in lines if len(line) > COLUMNS and not line.startswith("|")]


def main() -> int:
    """Print them; the exit code is 1 when there are some."""
    found = [
        f"{page.relative_to(ROOT)}:{number}: {len(line)} columns, more than {COLUMNS}: {line}"
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        for number, line in too_wide(page.read_text(encoding="utf-8"))
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
