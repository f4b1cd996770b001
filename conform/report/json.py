"""The report as JSON, for machines. Bytes are hex."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from muster.conform.results import Outcome, Report, State

FORMAT = 1
"""Grows when a field changes its meaning or is gone."""


def render(report: Report) -> str:
    """The whole report."""
    head = {
        "format": FORMAT,
        "target": report.target,
        "software": report.software,
        "release": report.release,
        "muster": report.muster,
        "began": report.began,
        "seconds": round(report.seconds, 3),
        "counts": {state.value: report.count(state) for state in State},
        "left": list(report.left),
    }
    rows = ",\n".join("  " + json.dumps(outcome(one), ensure_ascii=False) for one in report.outcomes)
    text = json.dumps(head, indent=1, ensure_ascii=False)
    return f'{text[:-2]},\n "outcomes": [\n{rows}\n ]\n}}\n'


def outcome(one: Outcome) -> dict[str, Any]:
    """One outcome; what is empty is left out."""
    row = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
    row |= {
        "state": one.state.value,
        "seconds": round(one.seconds, 3),
        "severity": one.severity.value if one.severity else "",
        "request_bytes": one.request_bytes.hex(),
        "answer": one.answer.hex(),
        "wrong": one.wrong._asdict() if one.wrong else None,
        "hurts": [hurt._asdict() for hurt in one.hurts],
        "settings": [setting._asdict() for setting in one.settings],
    }
    always = ("kind", "id", "level", "title", "state", "seconds", "tries")
    return {name: value for name, value in row.items() if value or name in always}
