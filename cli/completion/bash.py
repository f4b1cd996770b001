"""The script for bash."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from muster.cli.completion.tree import FILES, FOLDERS, Node, Tree, Value

_WALK = """\
# completion of the command muster; made by: muster completion bash
_muster() {
    local current="${COMP_WORDS[COMP_CWORD]}" path="" word skip="" index
    local commands options values kind
    COMPREPLY=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${COMP_WORDS[index]}"
        # bash takes --option=value apart
        if [[ -n $skip ]]; then [[ $word == "=" ]] || skip=""; continue; fi
        _muster_at "$path"
        if [[ " $values " == *" $word "* ]]; then
            skip="$word"
        elif [[ $word != -* && " $commands " == *" $word "* ]]; then
            path="${path:+$path }$word"
        fi
    done
    _muster_at "$path"
    [[ $current != "=" ]] || current=""
    if [[ -n $skip ]]; then
        _muster_value "$path $skip"
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [[ -n $commands ]]; then
        COMPREPLY=($(compgen -W "$commands" -- "$current"))
    else
        _muster_value "$path"
    fi
}
_muster_value() {
    kind=""
    case "$1" in
%(values)s
    esac
    case "$kind" in
    files) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")) ;;
    folders) compopt -o filenames; COMPREPLY=($(compgen -d -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$kind" -- "$current")) ;;
    esac
}
_muster_at() {
    commands="" options="" values=""
    case "$1" in
%(nodes)s
    esac
}
complete -F _muster muster
"""


def script(tree: Tree) -> str:
    """The whole script."""
    nodes = "\n".join(_node(path, node) for path, node in tree.items())
    values = "\n".join(
        f"    {shlex.quote(' '.join(place))}) kind={shlex.quote(said)} ;;" for place, said in _values(tree)
    )
    return _WALK % {"nodes": nodes, "values": values}


def _node(path: tuple[str, ...], node: Node) -> str:
    options = _words(word for one in node.options for word in one.words)
    values = _words(word for one in node.options if one.value is not None for word in one.words)
    return (
        f"    {shlex.quote(' '.join(path))}) commands={shlex.quote(_words(node.commands))} "
        f"options={shlex.quote(options)} values={shlex.quote(values)} ;;"
    )


def _values(tree: Tree) -> Iterator[tuple[tuple[str, ...], str]]:
    """The completions after a command and an option, or for the argument of a command, if they are known."""
    for path, node in tree.items():
        for option in node.options:
            if option.value is not None and (said := _said(option.value)):
                yield from (((*path, word), said) for word in option.words)
        if node.arguments and (said := _said(node.arguments[0])):
            yield path, said


def _said(value: Value) -> str:
    return value.kind if value.kind in (FILES, FOLDERS) else _words(value.words)


def _words(words: Iterable[str]) -> str:
    return " ".join(words)
