"""`muster completion bash | zsh | fish`: a script for the shell, made from the parsers of the command line."""

from __future__ import annotations

import argparse
from typing import Any, Final

SHELLS: Final = ("bash", "zsh", "fish")
ABOUT: Final = """\
Print a script that completes the words of `muster` in a shell.

  bash   eval "$(muster completion bash)"                                       in ~/.bashrc, or the output as
         muster completion bash > ~/.local/share/bash-completion/completions/muster
  zsh    eval "$(muster completion zsh)"                                        in ~/.zshrc, after compinit
  fish   muster completion fish > ~/.config/fish/completions/muster.fish
"""


def add_parser(commands: Any) -> None:
    """Add `completion` to the commands of `muster`."""
    parser = commands.add_parser(
        "completion",
        help="a script that completes words in bash, zsh or fish",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    # imported here: most commands do not need it
    from muster.cli import build_parser
    from muster.cli.completion import bash, fish, zsh
    from muster.cli.completion.tree import tree_of
    from muster.cli.output import printing

    script = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}[options.shell](tree_of(build_parser()))

    def write() -> int:
        print(script, end="")
        return 0

    return printing("muster completion", write)
