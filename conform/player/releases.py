"""A story over the releases of Kafka: what its steps brought in older releases stands below their outcomes.

A story file has the outcomes of the newest release. Outcome lines below `  until 4.3` are the answers of 4.3 and older
releases. Of several such blocks the nearest one counts. The header `since 4.2` means that a
request of the story did not exist before 4.2. Opens no file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Release = tuple[int, int]
"""A release without its patch: (4, 3)."""

RELEASES: Sequence[Release] = ((4, 4), (4, 3), (4, 2), (4, 1), (4, 0), (3, 9))
"""The releases in which the stories were recorded, newest first."""

_UNTIL = re.compile(r"  until (\d+\.\d+)")
_STOPPED = "    ! "


def release_of(text: str) -> Release:
    """Read 4.3 or 4.3.1."""
    found = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", text)
    if found is None:
        raise ValueError(f"{text} is no release: write 4.3")
    return int(found[1]), int(found[2])


def name_of(release: Release) -> str:
    """Write (4, 3) as 4.3."""
    return ".".join(map(str, release))


def text_of(text: str, release: Release | None = None) -> str:
    """The plain text of a story in this release (default: the newest)."""
    out: list[str] = []
    for line, outcomes in _steps(text):
        outcome = outcomes[min((until for until in outcomes if release and until >= release), default=_NEWEST)]
        out += [line, *outcome]
        if any(one.startswith(_STOPPED) for one in outcome):
            break
    return "\n".join(out) + "\n"


def merged(texts: Mapping[Release, str]) -> str:
    """One story from the plain texts of releases, in which each step is the same."""
    releases = sorted(texts, reverse=True)
    rows = {release: dict(enumerate(_steps(texts[release]))) for release in releases}
    out: list[str] = []
    for index, (line, outcomes) in rows[releases[0]].items():
        newest = outcomes[_NEWEST]
        out += [line, *newest]
        before = newest
        for release in releases[1:]:
            if index not in rows[release]:
                continue
            older_line, older = rows[release][index]
            if older_line != line:
                raise ValueError(f"{name_of(release)} has another step: {older_line}")
            if older[_NEWEST] != before:
                before = older[_NEWEST]
                out += [f"  until {name_of(release)}", *before]
    return "\n".join(out) + "\n"


def rewritten(text: str, plain: str) -> str:
    """The story with the outcomes of the newest release replaced by those of a plain text."""
    known = {until for _, outcomes in _steps(text) for until in outcomes if until != _NEWEST}
    return merged({_NEWEST: plain, **{until: text_of(text, until) for until in known}})


_NEWEST: Release = (999, 0)


def _steps(text: str) -> list[tuple[str, dict[Release, list[str]]]]:
    """Each line that is no outcome, with the outcomes below it by their `until`."""
    steps: list[tuple[str, dict[Release, list[str]]]] = []
    here: list[str] = []
    for line in text.splitlines():
        until = _UNTIL.fullmatch(line)
        if until:
            here = steps[-1][1][release_of(until[1])] = []
        elif line.startswith("    "):
            if not steps:
                raise ValueError(f"an outcome without a step: {line}")
            here.append(line)
        else:
            here = []
            steps.append((line, {_NEWEST: here}))
    return steps
