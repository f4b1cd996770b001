"""`muster completion`: the shells themselves show what they complete. bash is everywhere; zsh and fish where
installed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from muster.cli import build_parser, main
from muster.cli.command_tree import Tree, tree_of
from muster.cli.options.logs import SHELLS

BASH = """\
source "$1"
compopt() { :; }
while IFS= read -r line; do
    read -r -a COMP_WORDS <<< "$line"
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _muster
    echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture(scope="module")
def tree() -> Tree:
    return tree_of(build_parser())


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    capsys.readouterr()
    assert main(["completion", shell]) == 0
    file = folder / f"muster.{shell}"
    file.write_text(capsys.readouterr().out)
    return file


def completed(file: Path, lines: list[str]) -> list[list[str]]:
    """What bash completes at the end of each line."""
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", str(file)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True, text=True, check=True, cwd=file.parent,
    )  # fmt: skip
    assert done.stderr == ""
    return [line.split() for line in done.stdout.splitlines()]


def test_bash_completes_every_command_and_option(
    tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [(path, node) for path, node in tree.items() if path]
    file = script("bash", tmp_path, capsys)
    options = completed(file, [f"muster {' '.join(path)} -" for path, _ in places])
    assert options == [[word for one in node.options for word in one.words] for _, node in places]
    names = completed(file, [f"muster {' '.join(path[:-1])}{' ' * (len(path) > 1)}{path[-1]}" for path, _ in places])
    assert all(path[-1] in found for (path, _), found in zip(places, names, strict=True))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("muster gr", "groups"),
        ("muster groups offsets ", "reset delete"),
        ("muster groups offsets reset g --to-e", "--to-earliest"),
        ("muster groups list --bootstrap-server a:1,b:2 --js", "--json"),
        ("muster groups list --bootstrap-server localhost : 9092 --js", "--json"),
        ("muster serve --log-level ", "debug info warning error"),
        ("muster serve --log-level = wa", "warning"),
        ("muster serve --topic groups --in", "--in-memory"),
        ("muster completion ", "bash zsh fish"),
        ("muster serve --config ser", "server.properties"),
        ("muster log check da", "data"),
        ("muster nodes list --data-dir ", "data"),
        ("muster groups describe ", ""),
    ],
)
def test_bash_completes_commands_options_and_paths(
    line: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = script("bash", tmp_path, capsys)
    (tmp_path / "server.properties").touch()
    (tmp_path / "data").mkdir()
    assert completed(file, [line]) == [words.split()]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_completion_script_has_every_command_and_parses(
    shell: str, tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = script(shell, tmp_path, capsys)
    text = file.read_text()
    for path, node in tree.items():
        assert f"'{' '.join(path)}'" in text or f"{' '.join(path)})" in text or f"{' '.join(path)}\\'" in text
        for option in node.options:
            assert all(word.lstrip("-") in text for word in option.words)
    if shutil.which(shell) is not None:
        done = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_completion_for_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "zhs"])
    assert capsys.readouterr().err == (
        "muster completion: argument SHELL: invalid choice: 'zhs' (expected bash, zsh or fish); did you mean zsh? See "
        "muster completion --help\n"
    )
