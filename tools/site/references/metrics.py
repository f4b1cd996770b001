"""The reference of metrics: name, kind, labels and text of each metric of Muster's own, from the code.

A metric is a call of `Metric` or `single`, or a row of a table. A test with running servers (`tests/e2e/test_metrics`)
compares the names, kinds and texts with what the servers report.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

from muster.coordinator.alerts import reporting
from muster.coordinator.http import oldest_unread
from muster.coordinator.server import group_figures, metrics
from muster.coordinator.server.exposition import COUNTER, GAUGE, HISTOGRAM
from muster.postgres import metrics as of_nodes
from tools.site.references.docstrings import ROOT

_MODULES: Final = (metrics, group_figures, oldest_unread, reporting, of_nodes)
_CALLS: Final = ("Metric", "single", "counter")
_KINDS: Final = {"COUNTER": COUNTER, "GAUGE": GAUGE, "HISTOGRAM": HISTOGRAM}
_OWN: Final = "muster_"


class Row(NamedTuple):
    """A metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    about: str


def rows() -> list[Row]:
    """All metrics, in the order of names."""
    return sorted({*_of_calls(), *_of_members()})


def page() -> str:
    """The page."""
    lines = [_HEAD, "| name | kind | labels | what it is |", "|---|---|---|---|"]
    lines += (f"| `{one.name}` | {one.kind} | {', '.join(one.labels)} | {one.about} |" for one in rows())
    return "\n".join(lines) + "\n"


_HEAD = """# Metrics

[Metrics and the HTTP door](../metrics.md) says how to get them, and which names of other exporters are served too.
Names that begin with `muster_cluster_` need `--cluster`.
"""


def _of_calls() -> Iterator[Row]:
    for module in _MODULES:
        path = ROOT / f"{module.__name__.removeprefix('muster.').replace('.', '/')}.py"
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _of_function(function, vars(module))


def _of_function(function: ast.FunctionDef | ast.AsyncFunctionDef, names: dict[str, object]) -> Iterator[Row]:
    texts: dict[str, str] = {}
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.Call)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(node, ast.Assign):
            if isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant):
                texts[node.targets[0].id] = str(node.value.value)
        elif isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            name = _text(node.args[0], texts, names)
            if name.startswith(_OWN):
                yield _row(node.func.id, name, node.args, texts, names)


def _row(call: str, name: str, given: list[ast.expr], texts: dict[str, str], names: dict[str, object]) -> Row:
    if call == "counter":  # of `group_figures`: name, label, text, counts
        return Row(name, COUNTER, ("group", _text(given[1], texts, names)), _text(given[2], texts, names))
    [kind] = [_KINDS[one.id] for one in given if isinstance(one, ast.Name) and one.id in _KINDS]
    labels = ast.literal_eval(given[4]) if call == "Metric" and len(given) > 4 else ()
    return Row(name, kind, labels, _text(given[2], texts, names))


def _text(node: ast.expr, texts: dict[str, str], names: dict[str, object]) -> str:
    """The text of an argument, which may be the name of a variable or constant; "" for anything else."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        return texts.get(node.id) or str(names.get(node.id, ""))
    return ""


def _of_members() -> Iterator[Row]:
    for name, _, _, _, about in metrics._OF_MEMBERS:
        yield Row(name, GAUGE, ("group",), about)
