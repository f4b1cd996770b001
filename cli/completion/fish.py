"""The script for fish."""

from __future__ import annotations

from collections.abc import Iterator

from muster.cli.completion.tree import FILES, FOLDERS, Option, Tree, Value

_WALK = """\
# completion of the command muster; made by: muster completion fish
function __muster_at
    set -l at
    set -l skip
    set -l given (commandline -opc)
    for word in $given[2..-1]
        if test -n "$skip"
            set skip
        else if __muster_takes_value "$at" $word
            set skip 1
        else if __muster_is_command "$at" $word
            set at (string trim -- "$at $word")
        end
    end
    test "$at" = "$argv[1]"
end
function __muster_takes_value
    switch "$argv[1]|$argv[2]"
        case %(values)s
            return 0
    end
    return 1
end
function __muster_is_command
    switch "$argv[1]|$argv[2]"
        case %(commands)s
            return 0
    end
    return 1
end
complete -c muster -e
complete -c muster -f
%(lines)s
"""


def script(tree: Tree) -> str:
    """The whole script."""
    values = " ".join(
        _quoted(f"{' '.join(path)}|{word}")
        for path, node in tree.items()
        for one in node.options
        if one.value is not None
        for word in one.words
    )
    commands = " ".join(_quoted(f"{' '.join(path)}|{name}") for path, node in tree.items() for name in node.commands)
    return _WALK % {"values": values, "commands": commands, "lines": "\n".join(_lines(tree))}


def _lines(tree: Tree) -> Iterator[str]:
    for path, node in tree.items():
        here = "complete -c muster -n " + _quoted(f"__muster_at {_quoted(' '.join(path))}")
        for name, about in node.commands.items():
            yield f"{here} -a {_quoted(name)} -d {_quoted(about)}"
        for option in node.options:
            yield f"{here} {_option(option)} -d {_quoted(option.about)}"
        if node.arguments and (what := _what(node.arguments[0])):
            yield f"{here} {what}"


def _option(option: Option) -> str:
    names = " ".join(
        f"-l {_quoted(word[2:])}" if word.startswith("--") else f"-{'s' if len(word) == 2 else 'o'} {word[1:]}"
        for word in option.words
    )
    if option.value is None:
        return names
    # -x: the option needs a value, and files are not among its values
    return f"{names} -r -F" if option.value.kind == FILES else f"{names} -x {_what(option.value)}".rstrip()


def _what(value: Value) -> str:
    if value.kind == FILES:
        return "-F"
    if value.kind == FOLDERS:
        return "-a '(__fish_complete_directories)'"
    return f"-a {_quoted(' '.join(value.words))}" if value.words else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
