"""The reference of limits: each number in the code whose name says that it is a limit, with its docstring."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.site.references.docstrings import ROOT, Constant, constants, modules

FOLDERS: Final = ("clientlint", "coordinator", "postgres", "testcontrol", "protocol")
NAME: Final = re.compile(r"_?(?:[A-Z_]*_)?(?:MOST|MAX|AT_ONCE|FEW|MANY|LARGE|LONGEST|KEPT)(?:_[A-Z_]+)?")
_NUMBER_BEGINS: Final = "(0123456789"
_NUMBERS: Final = re.compile(r"[\d_ ()*+,<-]+")


class Limit(NamedTuple):
    """A limit. `module`: the path of its module from the root of the repository."""

    module: str
    name: str
    value: int | tuple[int, ...]
    text: str

    @property
    def shown(self) -> str:
        """The value, or several values, for a reader."""
        return ", ".join(f"{one:,}" for one in (self.value if isinstance(self.value, tuple) else (self.value,)))


def limits() -> Iterator[Limit]:
    """All limits, by module."""
    for path in modules(*FOLDERS):
        module = path.relative_to(ROOT).as_posix()
        if not module.startswith("protocol/messages/"):
            for one in constants(path.read_text(encoding="utf-8")):
                if NAME.fullmatch(one.name) and one.value[0] in _NUMBER_BEGINS:
                    yield Limit(module, one.name, _value(path, one), one.text)


def _value(path: Path, one: Constant) -> int | tuple[int, ...]:
    """The value of a constant. Most are numbers, or products of numbers; only for others the module is imported."""
    if _NUMBERS.fullmatch(one.value):
        return eval(one.value)  # type: ignore[no-any-return] # noqa: S307  # only digits and signs
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return getattr(importlib.import_module(f"muster.{module}"), one.name)  # type: ignore[no-any-return]  # a value of any type


def page() -> str:
    """The page, with a section for each package."""
    parts = ["# Limits in the code\n\n[Limits](../limits.md) has those that clients meet, and what happens beyond.\n"]
    package = ""
    for one in limits():
        home = one.module.rpartition("/")[0]
        if home != package:
            package = home
            parts.append(f"\n## {package}/\n\n| limit | value | |\n|---|---|---|")
        text = one.text.replace("|", r"\|")
        parts.append(f"| `{Path(one.module).stem}.{one.name}` | {one.shown} | {text} |")
    return "\n".join(parts) + "\n"
