"""The one import by name: for tables whose rows name the modules that most processes never need.

A function that needs one module has an `import` statement: type checkers and import-linter see it. `lazy` is for places
that keep module names as data. There are five such places: the registry of APIs, the command line, security, PostgreSQL
and the pipeline. Such a module also imports the named modules under `TYPE_CHECKING`, so that import-linter sees them:

    if TYPE_CHECKING:
        from muster.cli import groups, serve  # noqa: F401  # for `lazy`

The annotation of the variable that gets the result is its type. `tests/test_lint_rules.py` compares names and imports.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def lazy(module: str, name: str) -> Any:
    """Import a module, and return its attribute `name`. Raises ImportError and AttributeError."""
    return getattr(import_module(module), name)
