"""The command line as data: each command with its options and arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from muster.cli.parser import Parser

FILES: Final = "files"
FOLDERS: Final = "folders"
NOTHING: Final = ""
_KINDS: Final = {"FILE": FILES, "PATH": FILES, "SOURCE": FILES, "DIR": FOLDERS}
"""The kind of completion for a name in the help: FILE is completed with files, DIR with folders."""


class Value(NamedTuple):
    """The values of an argument: `words`; without words, `kind` says files, folders or NOTHING (not known)."""

    words: tuple[str, ...]
    kind: str


class Option(NamedTuple):
    """One option. `value` None: the option takes no value."""

    words: tuple[str, ...]
    about: str
    value: Value | None


class Node(NamedTuple):
    """A command. `commands`: each subcommand with its description; `arguments`: the arguments that follow no option."""

    commands: Mapping[str, str]
    options: tuple[Option, ...]
    arguments: tuple[Value, ...]


Tree = Mapping[tuple[str, ...], Node]
"""Every command by its words, such as `("groups", "list")`; `()` is `muster` itself."""


def tree_of(parser: Parser) -> Tree:
    """Every command that a parser knows."""
    found = dict(_nodes(parser, ()))
    # for argparse, `offsets reset` is one command of `groups`; for the user it is two words
    for path in [path for path in found if " " in path[-1:] or any(" " in word for word in path)]:
        node = found.pop(path)
        words = tuple(word for one in path for word in one.split())
        found[words] = node
        above, outer = found[words[:-1]], found[words[:-2]]
        about = outer.commands[" ".join(words[-2:])]
        found[words[:-1]] = above._replace(commands={**above.commands, words[-1]: about})
    return {
        path: node._replace(commands={name: about for name, about in node.commands.items() if " " not in name})
        for path, node in sorted(found.items())
    }


def _nodes(parser: Parser, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    below = parser.commands()
    helps = {} if below is None else {one.dest: one.help or "" for one in below._choices_actions}
    options = tuple(_option(one) for one in parser.actions() if one.option_strings)
    arguments = tuple(
        _value(one)
        for one in parser.actions()
        if not one.option_strings and not isinstance(one, argparse._SubParsersAction)
    )
    yield path, Node(helps, options, arguments)
    for name, one in () if below is None else below.choices.items():
        yield from _nodes(one, (*path, name))


def _option(action: argparse.Action) -> Option:
    about = (action.help or "").replace("%(default)s", str(action.default))
    return Option(tuple(action.option_strings), about, None if action.nargs == 0 else _value(action))


def _value(action: Any) -> Value:
    words = () if action.choices is None else tuple(map(str, action.choices))
    return Value(words, NOTHING if words else _KINDS.get(str(action.metavar), NOTHING))
