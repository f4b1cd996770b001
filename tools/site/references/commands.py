"""The reference of all commands: the help of each command, in one page for each first word."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from muster.cli.options import build_parser
from muster.cli.parser import Parser, walk

_COLUMNS = "100"


def pages() -> dict[str, str]:
    """The pages by name, with the overview first."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _COLUMNS
    try:
        whole = build_parser()
        every = dict(walk(whole))
        about = dict(_described(whole))
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    found: dict[str, list[str]] = {}
    rows = ["| command | what it does |", "|---|---|"]
    for path, parser in every.items():
        first = path.split()[1]
        if parser.commands() is None or path in about:
            words = about.get(path, "").replace("|", r"\|")
            rows.append(f"| [`{path}`]({first}.md#{path.replace(' ', '-')}) | {words} |")
        found.setdefault(first, [f"# `muster {first}`\n"]).append(_section(path, parser))
    return {"index": _INDEX + "\n".join(rows) + "\n"} | {name: "\n".join(parts) for name, parts in found.items()}


_INDEX = """# Commands

Each command explains its options: `muster groups list --help`. These are the texts of `--help`.
[Commands by task](../../commands.md) says which command answers which question.

"""


def _described(parser: Parser, path: str = "muster") -> Iterator[tuple[str, str]]:
    """What each command does, by its words."""
    below = parser.commands()
    if below is None:
        return
    for one in below._choices_actions:
        yield f"{path} {one.dest}", one.help or ""
    for name, one in below.choices.items():
        yield from _described(one, f"{path} {name}")


def _section(path: str, parser: argparse.ArgumentParser) -> str:
    return f"## `{path}` {{ #{path.replace(' ', '-')} }}\n\n```text\n{parser.format_help().rstrip()}\n```\n"
