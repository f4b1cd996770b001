"""The properties of the linter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LintSettings:
    """A field's name is the property's with "." as "_"."""

    muster_client_lint_enable: bool = False
    """Whether the requests of clients are checked."""
    muster_client_lint_report_file: str | None = None
    """Where the report is written at the end and on demand. None means that the text goes to stdout."""
