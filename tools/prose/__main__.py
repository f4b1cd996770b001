"""Checks, in `make lint`, that pages are at most 120 columns wide and that sentences keep the rules of `rules`.

* `python -m tools.prose` checks.
* `python -m tools.prose PATH …` prints all faults of these files, also those that are still allowed.
* `python -m tools.prose --update` writes `allowed.json` again, after sentences were rewritten. No number may grow.

`allowed.json` has the number of faults that each file still has from the time before the rules. In other files no fault
is allowed. The numbers may only fall.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from tools.prose import rules, texts

ROOT: Final = Path(__file__).parents[2]
ALLOWED: Final = Path(__file__).with_name("allowed.json")
CACHE: Final = ROOT / ".prose_cache.json"
"""A file with the faults of each file, by a hash of the text and the rules."""
COLUMNS: Final = 120
FOLDERS: Final = (
    "assignors", "bench", "cli", "client", "conform", "coordinator", "docs", "pipeline", "postgres", "protocol",
    "simulation", "testcontrol", "testing", "tools", "virtual",
)  # fmt: skip
GENERATED: Final = (
    "protocol/messages/",
    "bench/assignors.md",
    "bench/nodes.md",
    "bench/over_database.md",
    "bench/pipeline.md",
    "bench/results.md",
)
"""Programs write the texts of these files."""


def files() -> Iterator[str]:
    """The pages and modules that are checked, as paths from the root."""
    listed = subprocess.run(["git", "ls-files", "*.md", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True)
    for path in listed.stdout.splitlines():
        folder = path.partition("/")[0]
        is_checked = folder in FOLDERS or ("/" not in path and path.endswith(".md"))
        if is_checked and not path.startswith(GENERATED) and not (ROOT / path).is_symlink() and (ROOT / path).exists():
            yield path


def too_wide(text: str) -> list[tuple[int, str]]:
    """Number and text of lines that are too wide. Code and rows of tables may be wider: Markdown cannot break them."""
    prose = re.sub(r"(?ms)^```.*?^```", lambda code: "\n" * code[0].count("\n"), text)
    lines = enumerate(prose.split("\n"), 1)
    return [(number, line) for number, line in lines if len(line) > COLUMNS and not line.startswith("|")]


def faults(path: str, text: str) -> list[str]:
    """The faults of one file's sentences, each as `PATH:LINE: fault: sentence`."""
    found = texts.of_markdown(text) if path.endswith(".md") else texts.of_python(text)
    return [f"{path}:{one.line}: {fault}: {one.text}" for one in found for fault in rules.faults(one)]


def faults_of_all(contents: Mapping[str, str]) -> dict[str, list[str]]:
    """The faults of each file. For an unchanged file, the faults are read from `CACHE`."""
    try:
        before = json.loads(CACHE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}
    rules_text = "".join(
        Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("rules.py", "texts.py")
    )
    keys = {path: sha256(f"{rules_text}{path}\n{text}".encode()).hexdigest() for path, text in contents.items()}
    found = {
        keys[path]: before[keys[path]] if keys[path] in before else faults(path, text)
        for path, text in contents.items()
    }
    own = CACHE.with_suffix(f".{os.getpid()}")
    own.write_text(json.dumps(found), encoding="utf-8")
    own.replace(CACHE)
    return {path: found[key] for path, key in keys.items()}


def grown(found: Mapping[str, Sequence[str]], allowed: Mapping[str, int]) -> list[str]:
    """The faults of each file that has more faults than allowed."""
    return [
        line
        for path, some in found.items()
        if len(some) > allowed.get(path, 0)
        for line in [f"{path}: {len(some)} faults, {allowed.get(path, 0)} allowed", *some]
    ]


def risen(counts: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """The files with more faults than before. A moved file may have the faults of the deleted file."""
    gone = sum(count for path, count in allowed.items() if not (ROOT / path).exists())
    new = {path: count for path, count in counts.items() if path not in allowed}
    known = [path for path, count in counts.items() if count > allowed.get(path, count)]
    return sorted([*known, *(new if sum(new.values()) > gone else ())])


def _read(paths: Iterable[str]) -> dict[str, str]:
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}


def main(arguments: Sequence[str]) -> int:
    """Print the faults. The exit code is 1 if a fault is not allowed."""
    wanted = [argument for argument in arguments if not argument.startswith("-")]
    if wanted:
        print("\n".join(line for path, text in _read(wanted).items() for line in faults(path, text)))
        return 0
    contents = _read(files())
    wide = [
        f"{path}:{number}: {len(line)} columns, more than {COLUMNS}: {line}"
        for path, text in contents.items()
        if path == "README.md" or path.startswith("docs/")
        for number, line in too_wide(text)
    ]
    found = faults_of_all(contents)
    counts = {path: len(some) for path, some in found.items() if some}
    allowed: dict[str, int] = json.loads(ALLOWED.read_text(encoding="utf-8"))
    if "--update" in arguments:
        more = risen(counts, allowed)
        if more:
            print("these files have more faults than before:\n" + "\n".join(more))
            return 1
        ALLOWED.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    problems = [*wide, *grown(found, allowed)]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
