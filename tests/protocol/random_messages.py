"""Random messages of any layout and version, made from the layout text of the generated modules."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from muster.protocol import messages
from muster.protocol.errors import ErrorCode
from muster.protocol.malformed import LayoutField, layout_fields, within
from muster.protocol.message import ZERO_UUID

ERROR_CODES = sorted(code for name, code in vars(ErrorCode).items() if name.isupper() and code < 120)
RANGES = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 63}
TEXTS = ("", "a", "topic-1", "gr\u00fcppe", "\U0001f600", "x" * 126, "y" * 127, "z" * 300)


class Layout(NamedTuple):
    """One generated message: its module, name, versions, first flexible version text and fields."""

    module: ModuleType
    name: str
    versions: range
    flexible: str
    fields: list[LayoutField]

    @property
    def message(self) -> Any:
        """The class of the message."""
        return getattr(self.module, self.name)

    def is_flexible(self, version: int) -> bool:
        return within(version, self.flexible)

    def codec(self, part: str, version: int) -> Any:
        """The generated function; part is "DECODE" or "ENCODE"."""
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).upper()
        return getattr(self.module, f"{part}_{words}")[version]

    def encode(self, version: int, message: Any) -> bytes:
        encoded = self.codec("ENCODE", version)(message)
        return b"".join(encoded) if isinstance(encoded, list) else encoded


def modules() -> Iterator[ModuleType]:
    """Every generated module that holds messages."""
    assert messages.__file__
    root = Path(messages.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        module = import_module(f"muster.protocol.messages.{name}") if not name.endswith("__init__") else messages
        if hasattr(module, "LAYOUTS"):
            yield module


def layouts() -> dict[str, Layout]:
    """Every message by its name."""
    found = {}
    for module in modules():
        for name, text in module.LAYOUTS.items():
            head, *lines = text.strip("\n").split("\n")
            _, versions, flexible = head.split()
            first, _, last = versions.partition("-")
            known = range(int(first), int(last or first) + 1)
            found[name] = Layout(module, name, known, flexible.removeprefix("flexible="), layout_fields(lines))
    return found


def draw(rng: random.Random, layout: Layout, version: int) -> Any:
    """A random message that this version can encode; all other fields have their defaults."""
    return _struct(rng, layout.module, layout.message, layout.fields, version)


def _struct(rng: random.Random, module: ModuleType, cls: Any, fields: list[LayoutField], version: int) -> Any:
    present = [f for f in fields if within(version, f.versions) and not (f.tag is not None and rng.random() < 0.5)]
    return cls(**{f.name: _value(rng, module, f, version) for f in present})


def _value(rng: random.Random, module: ModuleType, f: LayoutField, version: int) -> Any:
    if within(version, f.nullable) and rng.random() < 0.2:
        return None
    if f.array:
        return [_one(rng, module, f, version) for _ in range(rng.choice((0, 1, 2, 3)))]
    return _one(rng, module, f, version)


def _one(rng: random.Random, module: ModuleType, f: LayoutField, version: int) -> Any:
    if f.fields:
        return _struct(rng, module, getattr(module, f.kind), f.fields, version)
    if f.kind == "string":
        return rng.choice(TEXTS)
    if f.kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 127, 128, 5000)))
    if f.kind == "bool":
        return rng.random() < 0.5
    if f.kind == "uuid":
        return ZERO_UUID if rng.random() < 0.2 else rng.randbytes(16)
    if f.kind == "float64":
        return float(rng.randrange(-1000, 1000))
    if "error_code" in f.name:
        return rng.choice(ERROR_CODES)
    if f.name.endswith("_ms") or "time" in f.name:
        return rng.randrange(0, 2_000_000_000)  # a duration or a time that other libraries can hold
    high = 1 << RANGES[f.kind]
    low = 0 if f.kind.startswith("u") else -high
    return rng.choice((0, low, high - 1, rng.randrange(low, high), rng.randrange(0, 100)))
