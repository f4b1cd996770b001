"""What `make wheel-compiled` compiles. These tests compile nothing."""

import ast
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import compiled

PACKAGE = compiled.ROOT / "muster"
CLASSES = [
    (marked, name, one)
    for marked in (compiled.INTERPRETED, compiled.EXTENDED)
    for name, classes in marked.items()
    for one in classes
]


def foreign_bases(path: Path) -> Iterator[tuple[str, str]]:
    """The base classes in a module that another module of Muster defines: path of the module, and class."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    home = {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
    for node in tree.body:
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            if isinstance(base, ast.Name) and home.get(base.id, "").startswith("muster."):
                yield home[base.id].removeprefix("muster.").replace(".", "/") + ".py", base.id


def test_an_interpreted_class_is_below_a_compiled_class_only_if_this_is_said() -> None:
    are_compiled = set(compiled.modules(PACKAGE))
    seen = set()
    for folder, _, names in os.walk(PACKAGE, followlinks=True):
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            if path in are_compiled:
                continue
            for home, base in foreign_bases(path):
                if PACKAGE / home in are_compiled:
                    assert base in compiled.EXTENDED.get(home, ()), path
                    seen.add((home, base))
    assert seen == {(home, one) for home, classes in compiled.EXTENDED.items() for one in classes}


def test_no_compiled_function_has_one_name_for_errors_of_several_types() -> None:
    """Mypyc takes the first type for all of them, and raises TypeError for the others."""
    for path in compiled.modules(PACKAGE):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                types: dict[str, str] = {}
                for one in ast.walk(function):
                    if isinstance(one, ast.ExceptHandler) and one.name is not None and one.type is not None:
                        caught = ast.unparse(one.type)
                        assert types.setdefault(one.name, caught) == caught, f"{path}:{one.lineno}"


def test_no_message_is_copied_by_the_module_copy() -> None:
    """It copies no field of a class below a compiled class; `protocol.message.copied` does."""
    for folder in ("coordinator", "protocol", "testcontrol", "client"):
        for path in (PACKAGE / folder).resolve().rglob("*.py"):
            assert "from copy import" not in path.read_text(encoding="utf-8"), path


def test_no_compiled_module_calls_a_function_inside_a_slice() -> None:
    """Mypyc would call it twice when it has no fast way to slice the object, for example a memoryview."""
    for path in compiled.modules(PACKAGE):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                bounds = [bound for bound in (node.slice.lower, node.slice.upper) if bound is not None]
                calls = [one for bound in bounds for one in ast.walk(bound) if isinstance(one, ast.Call)]
                assert not calls, f"{path}:{node.lineno}"


@pytest.mark.parametrize(("marked", "name", "one"), CLASSES)
def test_a_marked_class_is_in_a_compiled_module(marked: dict[str, tuple[str, ...]], name: str, one: str) -> None:
    assert PACKAGE / name in compiled.modules(PACKAGE)
    assert f"\nclass {one}" in (PACKAGE / name).read_text(encoding="utf-8")


def test_a_module_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MODULES", "protocol/{wire,wires}")
    with pytest.raises(ValueError, match="no module is called protocol/wires"):
        compiled.modules(PACKAGE)


def test_the_copied_sources_say_what_stays_with_the_interpreter(tmp_path: Path) -> None:
    compiled.copy(tmp_path / "tree")
    compiled.mark(tmp_path / "tree" / "muster")
    text = (tmp_path / "tree/muster/coordinator/net/connection_core.py").read_text(encoding="utf-8")
    assert "@interpreted\nclass IllegalTransition(" in text
    text = (tmp_path / "tree/muster/protocol/messages/heartbeat.py").read_text(encoding="utf-8")
    assert '    __slots__: ClassVar[tuple[str, ...]] = ("group_id", ' in text


def test_without_a_compiler_nothing_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None)
    with pytest.raises(SystemExit):
        compiled.main(["--out", str(tmp_path), "--tree", str(tmp_path / "tree")])
    assert "make wheel needs none" in capsys.readouterr().err
    assert not (tmp_path / "tree").exists()
