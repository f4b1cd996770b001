"""docs/operating.md has an entry for every warning and error that the log can have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("clientlint", "coordinator", "postgres", "testcontrol")
LOGGERS = ("log", "_logger", "shard_log")
LEVELS = ("warning", "error", "exception", "critical")
GIVEN = {"NoClient": 0, "_warn": 3, "_report": 0, "_begin": 1}
"""Functions that log a message which their callers give them, and its place among the arguments."""


BUG = ", because of a bug in the server"
"""All messages that end so have one entry."""
LOGS = re.compile(rf"log(?:ger)?\.(?:{'|'.join(LEVELS)})\(|{'|'.join(GIVEN)}")


def text_of(node: ast.expr | None) -> str | None:
    """The message of a log call, with … in place of values; None: the message is a variable."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return f"…{BUG}" if node.value.endswith(BUG) else node.value
    if isinstance(node, ast.JoinedStr):
        parts = [str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values]
        return "".join(parts)
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) == "context.get":
        return text_of(node.args[-1])
    return None


def calls() -> Iterator[tuple[Path, ast.Call]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if not LOGS.search(text):
                continue  # to parse all modules takes some seconds
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call):
                    yield path.relative_to(ROOT), node


def messages() -> set[str]:
    """Every warning and error that the code can log."""
    found = set()
    variables = []
    for path, call in calls():
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in LEVELS and isinstance(function, ast.Attribute) and ast.unparse(function.value) in LOGGERS:
            text = text_of(call.args[0])
            if text is None:
                variables.append(path.as_posix())
            else:
                found.add(text)
        elif name in GIVEN and len(call.args) > GIVEN[name] and (text := text_of(call.args[GIVEN[name]])):
            found.add(text)
    # a message that is a variable comes from a function of GIVEN, or is a sentence about the settings
    assert sorted(variables) == [
        "coordinator/net/tls/context.py",
        "coordinator/runtime/group_coordinator/background_work.py",
        "coordinator/runtime/transaction_coordinator/markers.py",
        "coordinator/topics/stray_folders.py",
        "postgres/serving.py",
        "postgres/shared_metadata_log.py",
    ]
    return found


def entries() -> list[str]:
    """The messages in the first column of the runbook."""
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    table = page.partition("## When the log says")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| (`.*?`) \| .+ \|$", table)
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row)]


def test_every_warning_and_error_has_one_entry_in_the_runbook() -> None:
    known = entries()
    assert sorted(messages() - set(known)) == []
    assert sorted(set(known) - messages()) == []
    assert sorted(one for one in set(known) if known.count(one) > 1) == []
