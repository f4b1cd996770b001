"""The parser of Muster's command line, which reports an error in one sentence with a suggestion."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

from muster.version import description

DEFAULT_CONTROL = "127.0.0.1:9094"
TWO_WORDS = ("groups offsets reset", "groups offsets delete")
"""Commands whose last two words `argparse` gets as one word, since `muster groups offsets GROUP` is a command, too."""
_WITH_VALUE = ("--bootstrap-server", "--command-config")
_NUMBER = re.compile(r"invalid (int|float) value: '(.*)'", re.DOTALL)
_NO_VALUE = re.compile(r"argument (--[a-z-]+): expected one argument")
_NUMBERS = {"int": "whole number", "float": "number"}
"""The names of Python's types of numbers, and the words that a sentence uses for them."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that reports an error in one sentence, without the usage text."""

    def __init__(self, *, formatter_class: Callable[..., Any] = argparse.HelpFormatter, **more: Any) -> None:
        # each option asks for a formatter, which without a width would import shutil: 0.6 MB
        super().__init__(formatter_class=partial(formatter_class, width=_width()), **more)

    @property
    def version(self) -> str:
        """What `--version` prints; `argparse` asks for it only then."""
        return description()

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and exit with status 2."""
        action = self.commands()
        if action is not None and message == f"the following arguments are required: {action.metavar}":
            message = f"a command was expected: {_or([*action.choices])}"
        message = _NO_VALUE.sub(
            r"argument \1: a value was expected; one that begins with - is written \1=VALUE", message
        )
        message = _NUMBER.sub(lambda found: f"'{found[2]}' is no {_NUMBERS[found[1]]}", message)
        see = " See" if message.endswith("?") else "; see"
        self.exit(2, f"{self.prog}: {message}{see} {self.prog} --help\n")

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # argparse has two forms of it
        """As in `argparse`, but unknown arguments are reported by the subcommand that the user called."""
        given = joined(sys.argv[1:] if args is None else args)
        options, left = self.parse_known_args(given, namespace)
        if left:
            command = self._asked(options)
            command.error(f"unrecognized arguments: {' '.join(left)}{_options_like(left, command)}")
        return options

    def _asked(self, options: argparse.Namespace) -> Parser:
        found = self
        while (action := found.commands()) is not None and getattr(options, action.dest, None) in action.choices:
            found = action.choices[getattr(options, action.dest)]
        return found

    def commands(self) -> Any:
        """The action whose `choices` are the subcommands by name; None if the parser has no subcommands."""
        found = (one for one in self._actions if isinstance(one, argparse._SubParsersAction))
        return next(found, None)

    def option_words(self) -> Iterator[str]:
        """Every option, as users write it."""
        for one in self._actions:
            yield from one.option_strings

    def actions(self) -> Sequence[argparse.Action]:
        """Every option and argument that the help shows."""
        return [one for one in self._actions if one.help != argparse.SUPPRESS]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [*map(str, action.choices)]
        hint = "" if value == "help" else like(str(value), choices)
        if not isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(action, f"invalid choice: '{value}' (expected {_or(choices)}){hint}")
        if value == "help":
            self.print_help()
            self.exit()
        if not hint:
            hint = _elsewhere(self, str(value))
        known = f"; there are {_or(choices, ' and ')}"
        self.error(f"there is no command '{value}'{hint or known}")


def joined(words: Sequence[str]) -> list[str]:
    """The words of a command line: two words of `TWO_WORDS` become one, and `help WORDS` becomes `WORDS --help`."""
    if words and words[0] == "help":
        return joined([*words[1:], "--help"])
    words = [*words]
    for command in TWO_WORDS:
        first, *parts = command.split()
        if [*words[:2]] == [first, parts[0]]:
            at = _after_options(words, 2)
            if words[at : at + 1] == [parts[1]]:
                return [first, " ".join(parts), *words[2:at], *words[at + 1 :]]
    return [*words]


def _after_options(words: Sequence[str], at: int) -> int:
    """The index of the first word, from `at` on, that is neither an option of `muster groups` nor its value."""
    while at < len(words) and words[at].startswith("--") and words[at] != "--":
        at += 2 if words[at] in _WITH_VALUE else 1
    return at


def like(word: str, known: Iterable[str]) -> str:
    """The text `; did you mean …?` with the most similar known word; empty when no word is similar."""
    # this import is needed only for a wrong command line
    from difflib import get_close_matches

    # case and hyphens are ignored, since most mistakes are there: --inmemory, --Json
    by_letters = {one.lower().replace("-", "").replace("_", ""): one for one in known}
    letters = word.lower().replace("-", "").replace("_", "")
    beginning = [one for one in by_letters if letters and one.startswith(letters)]
    found = beginning if len(beginning) == 1 else get_close_matches(letters, by_letters, 1, 0.6)
    return f"; did you mean {by_letters[found[0]]}?" if found else ""


def _options_like(left: Sequence[str], command: Parser) -> str:
    unknown = next((one.partition("=")[0] for one in left if one.startswith("-")), None)
    if unknown is None:
        return ""
    if unknown in ("--group", "--groups") and any("GROUP" in str(one.metavar) for one in command.actions()):
        return "; a group is named without an option: GROUP"
    if unknown in command.option_words():
        return f"; give {unknown} behind {command.prog}"
    return like(unknown, command.option_words())


def _elsewhere(parser: Parser, word: str) -> str:
    """Suggest commands that end with this word: for `muster describe`, `muster groups describe`."""
    found = sorted(f"{path}" for path, _ in walk(parser) if path.split()[-1] == word)
    return f"; did you mean {_or(found)}?" if found else ""


def walk(parser: Parser) -> Iterator[tuple[str, Parser]]:
    """Every subcommand of a parser, at all levels: the words that call it, and its parser."""
    action = parser.commands()
    for below in {} if action is None else dict(action.choices).values():
        yield below.prog, below
        yield from walk(below)


def _width() -> int:
    """The width of a help text, as `argparse` has it: two columns less than the terminal."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns <= 0:
        with suppress(OSError):
            columns = os.get_terminal_size(1).columns
    return (columns or 80) - 2


def _or(words: Sequence[str], last: str = " or ") -> str:
    return last.join(filter(None, (", ".join(words[:-1]), words[-1])))


def folder(text: str) -> Path:
    """The `type` of an argument that names a directory."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"'{text}' names no directory")
    return Path(text)


How = Mapping[str, Any]
"""More keyword arguments for `add_argument`, by the `dest` of an option or argument."""


def add_commands(
    commands: Any, table: str, how: How = MappingProxyType({}), **more: Any
) -> dict[str, argparse.ArgumentParser]:
    """Add the commands of a table, and return their parsers by name. `more`: arguments of `add_parser`.

    A command begins with a line of three parts, divided by two spaces: name, `run` (see `cli.options`; or "-"), help.
    Indented lines follow: the description, with a `|` before each line, then the options (see `add_options`). A line
    that is indented twice continues the line before it.
    """
    made: dict[str, argparse.ArgumentParser] = {}
    if "epilog" in more:
        more["formatter_class"] = argparse.RawDescriptionHelpFormatter
    for block in re.split(r"\n(?=\S)", re.sub(r"\n {8,}", " ", table.strip())):
        head, *lines = block.splitlines()
        name, run, about = head.split("  ", 2)
        description = " ".join([line[6:] for line in lines if line.startswith("    | ")])
        made[name] = commands.add_parser(name, help=about, **({"description": description or None} | more))
        add_options(made[name], "\n".join([line[4:] for line in lines if not line.startswith("    | ")]), how)
        if run != "-":
            made[name].set_defaults(run=run)
    return made


def add_options(parser: Any, table: str, how: How = MappingProxyType({})) -> None:
    """Add the options and arguments of a table, which has the form of a help text.

    A line has a name, the name of the value, two spaces, and the help. Indented lines continue the line before them. An
    option whose name ends with `+` may be given several times. A `*`, `+` or `?` after an argument is its `nargs`.
    Options with a `/` before them exclude each other. The value of a FILE, PATH or DIR is a Path.
    """
    group = None
    for row in re.sub(r"\n +", " ", table.strip()).splitlines():
        group = (group or parser.add_mutually_exclusive_group()) if row.startswith("/ ") else None
        head, _, about = row.removeprefix("/ ").partition("  ")
        name, _, metavar = head.partition(" ")
        mark = name[-1] if name[-1] in "*+?" else ""
        name = name.removesuffix(mark)
        given: dict[str, Any] = {"help": about or None}
        if not metavar:
            given["action"] = "store_true"
        else:
            given |= {"metavar": metavar, "type": Path if metavar in ("FILE", "PATH", "DIR") else None}
        if mark:
            given |= {"action": "append", "default": []} if name.startswith("--") else {"nargs": mark}
        (group or parser).add_argument(name, **given | how.get(name.lstrip("-").replace("-", "_"), {}))


def options_of_cluster() -> argparse.ArgumentParser:
    """A parent of parsers, with the options for the server, the security and the form of the output."""
    shared = argparse.ArgumentParser(add_help=False)
    add_options(shared, _OF_CLUSTER, {"bootstrap_server": {"default": "localhost:9092"}})
    return shared


_OF_CLUSTER: Final = """
--bootstrap-server HOST:PORT[,…]  servers of the cluster, the first that answers is used (default: %(default)s)
--command-config FILE  a client.properties as Kafka's tools have it: TLS, SASL
--json  JSON lines instead of text for people
"""


def options_of_control() -> argparse.ArgumentParser:
    """A parent of parsers, with the options for the test control."""
    shared = argparse.ArgumentParser(add_help=False)
    add_options(shared, _OF_CONTROL, {"control": {"default": os.environ.get("MUSTER_CONTROL", DEFAULT_CONTROL)}})
    return shared


_OF_CONTROL: Final = f"""
--control HOST:PORT  as the server was given it (default: MUSTER_CONTROL, else {DEFAULT_CONTROL})
--control-token FILE  as the server was given it
--json  JSON instead of text for people
"""
