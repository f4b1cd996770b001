"""The reference of events: the kinds that the cores report, and the causes in words, from the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

from muster.coordinator.groups.common import events as of_groups
from muster.coordinator.transactions import events as of_transactions
from tools.site.references.docstrings import ROOT, constants

_HEAD: Final = """# Events

[What the groups did](../events.md) is the schema of the values in both topics, field by field. Here are the facts of
each kind as the cores report them, and each cause in plain words.
"""


def page() -> str:
    """The page."""
    return "\n".join(
        (
            _HEAD,
            "## `__group_events`\n",
            *_kinds(of_groups),
            "\n## Causes of rebalances\n",
            *_causes(of_groups.WORDS),
            "\n## `__transaction_events`\n",
            *_kinds(of_transactions),
            "\n## Causes of ends\n",
            *_causes(of_transactions.WORDS),
            "",
        )
    )


def _kinds(module: ModuleType) -> Iterator[str]:
    yield from ("| kind | facts |", "|---|---|")
    words = getattr(module, "WORDS")  # noqa: B009  # a module is not typed
    path = Path(ROOT, *module.__name__.split(".")[1:]).with_suffix(".py")
    for one in constants(path.read_text(encoding="utf-8")):
        value = vars(module)[one.name]
        if isinstance(value, str) and one.text and value not in words and "_" in value:
            yield f"| `{value}` | {one.text} |"


def _causes(words: Mapping[str, str]) -> Iterator[str]:
    yield from ("| cause | |", "|---|---|")
    yield from (f"| `{cause}` | {text} |" for cause, text in words.items())
