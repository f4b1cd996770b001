"""The reference of wrong answers: what each client does when a broker answers so (conform/hurts.toml)."""

from __future__ import annotations

from collections.abc import Iterator

from muster.conform.hurts import CORRELATION, CUT, FAULTS, HEADER_TAGS, TRAILING, VALUE, VERSIONS, Fault

KINDS = {
    TRAILING: "Every answer has one byte too many",
    CUT: "An answer has one byte less",
    CORRELATION: "The correlation id is another",
    HEADER_TAGS: "The header has a tagged field",
    VERSIONS: "An unknown version of ApiVersions is refused in that version",
}
HEAD = """\
# What wrong answers do to clients

`muster conform` names the clients that a wrong answer hurts. This is how it is known: a proxy put each fault into the
answers of a broker. Each client then produced, consumed in a group, committed, left, and began again.
"""


def page() -> str:
    """The page, with a section for each API."""
    return "\n".join(_parts()) + "\n"


def _parts() -> Iterator[str]:
    yield HEAD
    api = None
    for fault in sorted(FAULTS, key=lambda one: one.api):
        if fault.api != api:
            api = fault.api
            yield f"## {api or 'Every answer'}\n"
        yield f"**{_title(fault)}**\n"
        yield "| client | |\n|---|---|"
        yield from (f"| {hurt.client} | {_cell(hurt.how)} |" for hurt in fault.hurts)
        if fault.unhurt:
            yield f"| {', '.join(fault.unhurt)} | as with Kafka |"
        yield ""


def _title(fault: Fault) -> str:
    if fault.kind == VALUE:
        return f"`{fault.field}` has {fault.value}"
    return KINDS[fault.kind]


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")
