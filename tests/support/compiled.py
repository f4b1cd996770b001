"""Tests on compiled modules (`make test-compiled`). What only pure Python allows is skipped there.

Compiled code has no instructions of Python to count. Its constants, functions and classes cannot be replaced. Its
classes cannot be extended, and it takes no other class in place of one of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from traceback import walk_tb
from types import ModuleType
from typing import Any

import pytest

from muster.version import is_compiled

COMPILED = is_compiled()
_REFUSALS = re.compile(r"' is read-only|object expected; got (tuple\[)?tests\.")
_SUBCLASS = "interpreted classes cannot inherit from compiled"


def needs_pure_python(reason: str) -> None:
    """Skip the running test on compiled modules."""
    if COMPILED:
        pytest.skip(f"{reason} of compiled code")


def _is_compiled(target: object) -> bool:
    module = target if isinstance(target, ModuleType) else sys.modules.get(getattr(target, "__module__", ""))
    path = getattr(module, "__file__", None) or ""
    return path.endswith(".so") and getattr(module, "__name__", "").startswith("muster.")


def _is_of_tests(error: BaseException) -> bool:
    """Whether a module of the tests has raised the error: a class of Muster below a compiled class is a fault."""
    frames = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    return bool(frames) and "/tests/" in frames[-1]


def skip_replacements() -> None:
    """Let `monkeypatch.setattr` skip the test that replaces a part of a compiled module or class."""
    replace = pytest.MonkeyPatch.setattr

    def setattr_or_skip(self: pytest.MonkeyPatch, target: Any, *values: Any, **options: Any) -> None:
        if isinstance(target, ModuleType | type) and _is_compiled(target):
            pytest.skip(f"replaces a part of {target.__name__}, which is compiled")
        replace(self, target, *values, **options)

    pytest.MonkeyPatch.setattr = setattr_or_skip  # type: ignore[method-assign]


def skipping_refusals() -> Iterator[None]:
    """The wrapper of one test: it skips the test if compiled code refuses a change of itself, a class of the tests
    below a compiled class, or a test double in place of a compiled class.
    """
    try:
        yield
    except (TypeError, AttributeError) as error:
        if COMPILED and (_REFUSALS.search(str(error)) or (_SUBCLASS in str(error) and _is_of_tests(error))):
            pytest.skip(f"compiled code refuses what the test makes: {error}")
        raise
