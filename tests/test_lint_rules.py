"""Rules about the source that no linter has, such as one source of time, and rooms that import nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("coordinator", "cli", "client", "postgres", "testcontrol", "protocol", "assignors", "simulation", "virtual")

LOOP_TIMERS = {"call_later", "call_at"}
SOURCES_OF_TIME = tuple(f"coordinator/system/{one}.py" for one in ("clock", "wall_time"))


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an expression; `?` stands for a part that is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def uses_of_time(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of everything that reads a clock or sets a timer, under whatever name it was imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                (node.lineno, alias.name) for alias in node.names if alias.name in ("time", "datetime", "sched")
            )
        elif isinstance(node, ast.ImportFrom):
            forbidden = {"asyncio": {"sleep", "wait_for", "timeout", "timeout_at"}}.get(node.module or "", set())
            if node.module in ("time", "datetime", "sched"):
                yield node.lineno, node.module
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in forbidden)
        elif isinstance(node, ast.Call):
            called = dotted(node.func)
            last = called.rpartition(".")[2]
            owner = called.rpartition(".")[0].rpartition(".")[2].strip("_")
            of_asyncio = called in ("asyncio.sleep", "asyncio.wait_for", "asyncio.timeout", "asyncio.timeout_at")
            of_loop = (last in LOOP_TIMERS and owner not in ("clock", "machine")) or (
                last == "time" and owner in ("loop", "?")
            )
            if of_asyncio or of_loop:
                yield node.lineno, called


def test_each_use_of_real_time_is_found() -> None:
    source = """
import time
import asyncio
from time import monotonic
from asyncio import sleep
await asyncio.sleep(1)
loop.call_later(1, f)
self._loop.call_at(1, f)
asyncio.get_running_loop().time()
loop.time()
self._clock.call_at(1, f)
clock.now()
"""
    assert [line for line, _ in sorted(uses_of_time(ast.parse(source)))] == [2, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("path", modules(*PRODUCT), ids=name)
def test_only_the_clock_modules_read_the_real_time(path: Path) -> None:
    if name(path) in SOURCES_OF_TIME:
        return
    assert list(uses_of_time(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_properties_imports_no_other_package_of_the_server() -> None:
    for path in modules("coordinator/properties"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("muster."):
                assert (node.module or "").startswith(("muster.coordinator.properties", "muster.protocol")), name(path)


STRING_IMPORTS = {
    "coordinator/system/lazy_import.py": "the helper",
    "assignors/custom.py": "a class of the user",
    "testing/play/playing.py": "a client library, if it is installed",
}
"""Where a module may be imported by its name as text; other places use `lazy` or an `import` in a function. `protocol`
may do it too: the names of its messages are generated.
"""


def imported(tree: ast.AST) -> set[str]:
    """The modules that import statements name, wherever they are in the file."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def named_modules(path: Path, tree: ast.AST) -> set[str]:
    """The modules of Muster that strings of a file name, from the root or from the file's own package."""
    package = "muster." + name(path.parent).replace("/", ".")
    found: set[str] = set()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        text = node.value.partition(":")[0]
        if not text or any(not word.isidentifier() for word in text.split(".")):
            continue
        for full in (text, f"{package}.{text}"):
            place = ROOT.joinpath(*full.split(".")[1:])
            if full.startswith("muster.") and (place.with_suffix(".py").exists() or (place / "__init__.py").exists()):
                found.add(full)
    return found


def test_modules_are_imported_by_statements_except_by_one_helper() -> None:
    by_text = {
        name(path).removeprefix("coordinator/") if name(path) not in STRING_IMPORTS else name(path)
        for path in modules(*(folder for folder in PRODUCT if folder != "protocol"), "testing")
        if "import_module" in path.read_text(encoding="utf-8")
    }
    assert by_text <= set(STRING_IMPORTS)


def test_lazily_imported_modules_are_visible_to_the_import_linter() -> None:
    for path in modules(*PRODUCT, "testing", "pipeline"):
        text = path.read_text(encoding="utf-8")
        if "lazy_import" in text:
            tree = ast.parse(text)
            assert named_modules(path, tree) - imported(tree) == set(), name(path)


REASON = re.compile(r"# (?:noqa: [A-Z0-9, ]+|type: ignore\[[a-z, -]+\])  # (?!noqa|type: )\S")
WITH_EXAMPLES = ("tests/test_lint_rules.py", "tests/tools/test_prose.py")


def test_each_ignored_rule_has_its_reason_behind_it() -> None:
    """As in `# noqa: ARG002  # every handler has this shape`."""
    rooms = (*PRODUCT, "bench", "clientlint", "conform", "examples", "pipeline", "testing", "tests", "tools")
    bare = [
        f"{name(path)}: {line.strip()}"
        for path in modules(*rooms)
        if name(path) not in WITH_EXAMPLES and not name(path).startswith("protocol/messages/")
        for line in path.read_text(encoding="utf-8").splitlines()
        if ("# noqa" in line or "# type: ignore" in line) and not REASON.search(line)
    ]
    assert bare == []
