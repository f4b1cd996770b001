"""The script for zsh."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from muster.cli.completion.tree import FILES, FOLDERS, Node, Tree, Value

_WALK = """\
#compdef muster
# completion of the command muster; made by: muster completion zsh
_muster() {
    local at="" word skip="" index
    local -a commands options
    local values
    for ((index = 2; index < CURRENT; index++)); do
        word="${words[index]}"
        if [[ -n $skip ]]; then skip=""; continue; fi
        _muster_at "$at"
        if [[ " $values " == *" $word "* ]]; then
            skip=1
        elif [[ $word != -* && -n ${commands[(r)$word:*]} ]]; then
            at="${at:+$at }$word"
        fi
    done
    _muster_at "$at"
    if [[ -n $skip ]]; then
        _muster_value "$at ${words[CURRENT-1]}"
    elif [[ ${words[CURRENT]} == -* ]]; then
        _describe option options
    elif (( $#commands )); then
        _describe command commands
    else
        _muster_value "$at"
    fi
}
_muster_value() {
    case "$1" in
%(values)s
    esac
}
_muster_at() {
    commands=() options=() values=""
    case "$1" in
%(nodes)s
    esac
}
if [[ ${funcstack[1]} == _muster ]]; then _muster "$@"; else compdef _muster muster; fi
"""


def script(tree: Tree) -> str:
    """The whole script."""
    nodes = "\n".join(_node(path, node) for path, node in tree.items())
    values = "\n".join(f"    {shlex.quote(' '.join(place))}) {does} ;;" for place, does in _values(tree))
    return _WALK % {"nodes": nodes, "values": values}


def _node(path: tuple[str, ...], node: Node) -> str:
    commands = " ".join(_described(name, about) for name, about in node.commands.items())
    options = " ".join(_described(word, one.about) for one in node.options for word in one.words)
    values = " ".join(word for one in node.options if one.value is not None for word in one.words)
    return (
        f"    {shlex.quote(' '.join(path))}) commands=({commands}) options=({options}) values={shlex.quote(values)} ;;"
    )


def _described(word: str, about: str) -> str:
    return shlex.quote(f"{word}:{about}")


def _values(tree: Tree) -> Iterator[tuple[tuple[str, ...], str]]:
    for path, node in tree.items():
        for option in node.options:
            if option.value is not None and (does := _does(option.value)):
                yield from (((*path, word), does) for word in option.words)
        if node.arguments and (does := _does(node.arguments[0])):
            yield path, does


def _does(value: Value) -> str:
    if value.kind in (FILES, FOLDERS):
        return "_files" if value.kind == FILES else "_files -/"
    return f"compadd -- {' '.join(map(shlex.quote, value.words))}" if value.words else ""
