"""Defines a line of bench/pipeline.md."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A figure with its unit and its goal."""

    figure: str
    measured: str
    goal: str = ""
    is_met: bool | None = None
    """Whether the figure reaches its goal; None if it has no goal."""


def at_least(figure: str, value: float, goal: float, unit: str = "") -> Row:
    """A figure whose goal is a smallest value."""
    return Row(figure, f"{value:,.{_digits(value)}f}{unit}", f"≥ {goal:,g}{unit}", value >= goal)


def at_most(figure: str, value: float, goal: float, unit: str = "") -> Row:
    """A figure whose goal is a largest value."""
    return Row(figure, f"{value:,.{_digits(value)}f}{unit}", f"≤ {goal:,g}{unit}", value <= goal)


def plain(figure: str, value: float, unit: str = "") -> Row:
    """A figure without a goal."""
    return Row(figure, f"{value:,.{_digits(value)}f}{unit}")


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1
