"""Every `muster …` in the README, pages and help texts is a valid command line, and the page of commands lists all
commands.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.cli import build_parser, main
from muster.cli.command_tree import tree_of
from muster.cli.parser import Parser, walk

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]
TREE = tree_of(build_parser())
BY_PATH = {(): build_parser(), **{tuple(path.split()[1:]): one for path, one in walk(build_parser())}}
WORD = re.compile(r"[a-z][a-z-]*")


def fenced(text: str) -> Iterator[str]:
    """Command lines in blocks of code: lines with a prompt, and lines that begin with `muster`."""
    for block in re.findall(r"(?ms)^```(?:sh|text|bash|console)?\n(.*?)^```", text):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            found = re.match(r"(?:\$ )?((?:[A-Z_]+=\S+ )*muster [a-z-].*)", line)
            # the server prints `muster ready …`; a line with a colon is an error
            if found is not None and not re.match(r"muster (ready|[a-z -]+:)", found[1]):
                yield re.sub(r"^(?:[A-Z_]+=\S+ )*", "", found[1])


def examples(parser: Parser) -> Iterator[str]:
    """Command lines in the help of a command and of its subcommands."""
    for one in (parser, *(below for _, below in walk(parser))):
        text = re.sub(r"\\\n\s*", "", one.epilog or "")
        for line in text.splitlines():
            # the description is behind two spaces
            found = re.match(r"  (?:[A-Z_]+=\S+ )*(muster [^\n]*?)(?:  .*)?$", line)
            if found is not None:
                yield found[1]


def understood(line: str) -> bool:
    """Whether the program accepts the command line; nothing is run."""
    words = shlex.split(line.replace("…", ""), comments=True)
    for end, word in enumerate(words):
        if word in ("|", ">", ">>", "&", "&&", ";", "2>&1") or word.endswith(";"):
            words = words[:end]
            break
    try:
        build_parser().parse_args(words[1:])
    except SystemExit as ended:
        return ended.code == 0
    return True


LINES = sorted({(page.name, line) for page in PAGES for line in fenced(page.read_text(encoding="utf-8"))})
HELPS = sorted(set(examples(build_parser())))


def test_the_pages_have_command_lines_to_test() -> None:
    assert len(LINES) > 20
    assert len(HELPS) > 60


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_command_line_of_a_page_is_understood(page: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert understood(line), f"{page}: {line}: {capsys.readouterr().err}"


@pytest.mark.parametrize("line", HELPS)
def test_an_example_of_a_help_is_understood(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert understood(line), capsys.readouterr().err


def spoken_of() -> Iterator[tuple[str, str]]:
    """Each `muster …` within sentences."""
    for page in PAGES:
        text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
        for found in re.findall(r"`(muster [^`]+)`", text):
            yield page.name, " ".join(found.split())


@pytest.mark.parametrize(("page", "words"), sorted(set(spoken_of())))
def test_a_command_in_a_sentence_exists_with_its_options(page: str, words: str) -> None:
    given = words.split()[1:]
    if given[0].rstrip(":,") == "ready":
        return  # the server prints this line
    if given[0] == "help":
        given = given[1:]
    if "--" in given:
        given = given[: given.index("--")]
    path: tuple[str, ...] = ()
    for word in given:
        # `muster nodes list | stop ID`: each is a command of its own
        if (*path, word) in TREE:
            path = (*path, word)
        elif path and (*path[:-1], word) in TREE:
            path = (*path[:-1], word)
        elif word.startswith("-"):
            known = {one for option in TREE[path].options for one in option.words}
            below = {
                one
                for name, node in TREE.items()
                if name[: len(path)] == path
                for option in node.options
                for one in option.words
            }
            assert word.partition("=")[0].rstrip(",;") in known | below, f"{page}: {words}: {word}"
        else:
            assert path, f"{page}: `{words}`: there is no command {word}"


@pytest.mark.parametrize("path", sorted(BY_PATH), ids=" ".join)
def test_each_command_and_option_has_a_help_text(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The help is printed, shows how the command is called, and explains every option and argument."""
    with pytest.raises(SystemExit) as ended:
        main([*path, "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"usage: {' '.join(('muster', *path))}")
    for action in BY_PATH[path].actions():
        if not isinstance(action, argparse._SubParsersAction) and action.option_strings:
            assert action.help, f"{' '.join(path)} {action.option_strings} has no help"
