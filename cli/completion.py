"""`muster completion bash | zsh | fish` prints a script for the shell, made from the parser of the command line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator

from muster.cli.command_tree import FILES, FOLDERS, Node, Option, Tree, Value, tree_of
from muster.cli.options import build_parser


def run(options: argparse.Namespace) -> int:
    """Print the script for the shell of the user's choice."""
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]
    print(script(tree_of(build_parser())), end="")
    return 0


def _values(tree: Tree, shown: Callable[[Value], str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The known completions: after a command and its option, and for the first argument of a command."""
    for path, node in tree.items():
        for option in node.options:
            if option.value is not None and (does := shown(option.value)):
                yield from (((*path, word), does) for word in option.words)
        if node.arguments and (does := shown(node.arguments[0])):
            yield path, does


_BASH = """\
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


def _bash(tree: Tree) -> str:
    nodes = "\n".join(_bash_node(path, node) for path, node in tree.items())
    kinds = _values(tree, lambda value: value.kind if value.kind in (FILES, FOLDERS) else " ".join(value.words))
    values = "\n".join(f"    {shlex.quote(' '.join(place))}) kind={shlex.quote(kind)} ;;" for place, kind in kinds)
    return _BASH % {"nodes": nodes, "values": values}


def _bash_node(path: tuple[str, ...], node: Node) -> str:
    options = " ".join(word for one in node.options for word in one.words)
    return (
        f"    {shlex.quote(' '.join(path))}) commands={shlex.quote(' '.join(node.commands))} "
        f"options={shlex.quote(options)} values={shlex.quote(_with_value(node))} ;;"
    )


def _with_value(node: Node) -> str:
    return " ".join(word for one in node.options if one.value is not None for word in one.words)


_ZSH = """\
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


def _zsh(tree: Tree) -> str:
    nodes = "\n".join(_zsh_node(path, node) for path, node in tree.items())
    values = "\n".join(f"    {shlex.quote(' '.join(place))}) {does} ;;" for place, does in _values(tree, _zsh_values))
    return _ZSH % {"nodes": nodes, "values": values}


def _zsh_node(path: tuple[str, ...], node: Node) -> str:
    commands = " ".join(_zsh_described(name, about) for name, about in node.commands.items())
    options = " ".join(_zsh_described(word, one.about) for one in node.options for word in one.words)
    place, values = shlex.quote(" ".join(path)), shlex.quote(_with_value(node))
    return f"    {place}) commands=({commands}) options=({options}) values={values} ;;"


def _zsh_described(word: str, about: str) -> str:
    return shlex.quote(f"{word}:{about}")


def _zsh_values(value: Value) -> str:
    if value.kind in (FILES, FOLDERS):
        return "_files" if value.kind == FILES else "_files -/"
    return f"compadd -- {' '.join(map(shlex.quote, value.words))}" if value.words else ""


_FISH = """\
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


def _fish(tree: Tree) -> str:
    values = " ".join(
        _fish_quoted(f"{' '.join(path)}|{word}")
        for path, node in tree.items()
        for one in node.options
        if one.value is not None
        for word in one.words
    )
    commands = " ".join(
        _fish_quoted(f"{' '.join(path)}|{name}") for path, node in tree.items() for name in node.commands
    )
    return _FISH % {"values": values, "commands": commands, "lines": "\n".join(_fish_lines(tree))}


def _fish_lines(tree: Tree) -> Iterator[str]:
    for path, node in tree.items():
        here = "complete -c muster -n " + _fish_quoted(f"__muster_at {_fish_quoted(' '.join(path))}")
        for name, about in node.commands.items():
            yield f"{here} -a {_fish_quoted(name)} -d {_fish_quoted(about)}"
        for option in node.options:
            yield f"{here} {_fish_option(option)} -d {_fish_quoted(option.about)}"
        if node.arguments and (what := _fish_values(node.arguments[0])):
            yield f"{here} {what}"


def _fish_option(option: Option) -> str:
    names = " ".join(
        f"-l {_fish_quoted(word[2:])}" if word.startswith("--") else f"-{'s' if len(word) == 2 else 'o'} {word[1:]}"
        for word in option.words
    )
    if option.value is None:
        return names
    # fish: -x means that the option needs a value, and that no file is a value of the option
    return f"{names} -r -F" if option.value.kind == FILES else f"{names} -x {_fish_values(option.value)}".rstrip()


def _fish_values(value: Value) -> str:
    if value.kind == FILES:
        return "-F"
    if value.kind == FOLDERS:
        return "-a '(__fish_complete_directories)'"
    return f"-a {_fish_quoted(' '.join(value.words))}" if value.words else ""


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
