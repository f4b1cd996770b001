"""A badge for a README: an SVG picture that needs no network."""

from __future__ import annotations

from html import escape

from muster.conform.report import words
from muster.conform.results import Report, Severity, State

GREEN, YELLOW, RED, GREY = "#2e7d32", "#b26a00", "#c62828", "#616161"
LETTER = 6.6
"""The width of a letter of 11 pixels, about."""


def render(report: Report) -> str:
    """The picture."""
    left, right, colour = f"Kafka {report.release}", *_state(report)
    first, second = (round(len(text) * LETTER + 14) for text in (left, right))
    width, title = first + second, escape(f"{left}: {right}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{title}">\n'
        f"<title>{title}</title>\n"
        f'<clipPath id="round"><rect width="{width}" height="20" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#round)"><rect width="{first}" height="20" fill="#424242"/>'
        f'<rect x="{first}" width="{second}" height="20" fill="{colour}"/></g>\n'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{first / 2:g}" y="14">{escape(left)}</text>'
        f'<text x="{first + second / 2:g}" y="14">{escape(right)}</text></g>\n'
        "</svg>\n"
    )


def _state(report: Report) -> tuple[str, str]:
    failed, passed = report.count(State.FAILED), report.count(State.PASSED) + report.count(State.FLAKY)
    if not failed + passed:
        return "not compared", GREY
    if not failed:
        return f"{passed} of {passed}", GREEN
    breaks = any(one.severity is Severity.CLIENTS_BREAK for one in words.failures(report))
    return f"{passed} of {passed + failed}", RED if breaks else YELLOW
