"""The commands that pages and `--help` show are commands that there are: the command line takes each of them."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from functools import cache

import pytest

from muster.coordinator.cli import build_parser
from tests.support.pasted_docs import ROOT, parse

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*(?:muster|make) (?!ready\b|[\w -]+: )")
"""A line that is one, and not an output: the line of a server that is ready, or a sentence of a command."""
IN_PROSE = re.compile(r"`((?:muster|make) (?!ready\b)[^`]+)`")
IS_A_NAME = re.compile(
    r"the following arguments are required|expected one argument|a command was expected|one of the arguments .* is req"
)
"""What the command line says of a command that is named without all that it needs, as in prose."""
NOT_WRITTEN_OUT = re.compile(r"…|\.\.\.| \| |\.kafka|nothing was changed")


def in_blocks(page: str) -> Iterator[str]:
    """The commands in a page's blocks of shell, and of what a terminal shows."""
    for block in parse(page, (ROOT / page).read_text(encoding="utf-8")):
        if block.language in ("sh", "text", ""):
            yield from (line for line in block.commands if COMMAND.match(line))


def in_prose(page: str) -> Iterator[str]:
    """The commands in a page's text."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", (ROOT / page).read_text(encoding="utf-8"))
    yield from (found.replace("\n", " ").replace("\\|", "|") for found in IN_PROSE.findall(text))


def in_help() -> list[str]:
    """The examples at the end of each help."""
    found, todo = [], [parser()]
    while todo:
        one = todo.pop()
        lines = [line.strip() for line in re.sub(r"\\\n\s*", "", one.epilog or "").splitlines()]
        found += [re.split(r"\s{2,}", line)[0] for line in lines if COMMAND.match(line)]
        for action in one._actions:
            if isinstance(action, argparse._SubParsersAction):
                todo += action.choices.values()
    return sorted({*found})


@cache
def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    return build_parser()


@cache
def targets() -> set[str]:
    """Of make."""
    return set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))


def refusal(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What stands against a command; empty if the command line takes it."""
    # what follows it: another command, a comment, a pipe, a file
    words = shlex.split(re.sub(r"\s(?:&|#|\||2?>|<).*", "", command.strip()))
    while "=" in words[0]:
        del words[0]
    if words[0] == "make":
        asked = {word for word in words[1:] if "=" not in word}
        return "" if asked <= targets() else f"{command}: there is no such target"
    try:
        parser().parse_args(words[1:])
    except SystemExit as end:
        return capsys.readouterr().err if end.code else ""
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused = [(command, why) for command in in_blocks(page) if (why := refusal(command, capsys))]
    assert refused == []
    mentioned = [command for command in in_prose(page) if not NOT_WRITTEN_OUT.search(command)]
    refused = [(command, why) for command in mentioned if (why := refusal(command, capsys))]
    assert [(command, why) for command, why in refused if not IS_A_NAME.search(why)] == []


def test_the_examples_of_the_helps(capsys: pytest.CaptureFixture[str]) -> None:
    commands = in_help()
    assert len(commands) > 30
    assert [(command, why) for command in commands if (why := refusal(command, capsys))] == []


def test_a_wrong_command_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("muster groups lst", "muster serve --no-such-option", "make no-such-target"):
        assert refusal(command, capsys)
        assert not IS_A_NAME.search(refusal(command, capsys))
    assert sum(len([*in_blocks(page), *in_prose(page)]) for page in PAGES) > 150
