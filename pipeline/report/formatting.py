"""Times, numbers and causes as text, for the page and the terminal. Also the style of the page, and its marks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.infer.epoch_causes import REVOCATION_TIMEOUT
from muster.pipeline.report.markup import Html, join, tag
from muster.pipeline.wording import NOT_KNOWN, duration, moment, plural, span
from muster.protocol.printable import shown

_GROUPS_NAMED: Final = 3


class CauseWords(NamedTuple):
    """The words and colours for one cause of rebalances."""

    title: str
    mark: str = "?"
    """The letter of the cause in a picture: not all readers can distinguish the colours."""
    colour: str = "#6b7078"
    """The colour on a light page and on paper. The letter on it is white."""
    on_dark: str = "#b0b6bf"
    """The colour on a dark page. The letter on it is dark."""
    sentence: str = ""
    """A sentence about the cause, with {who} in place of the trigger."""


CAUSES: Final[Mapping[str, CauseWords]] = {
    cause: CauseWords(cause.replace("_", " "), *look)
    for cause, *look in (
        (events.NEW_MEMBER, "J", "#2e7d4f", "#5cc38a", "{who} joined"),
        (events.LEFT, "L", "#5f6b7a", "#a3aebd", "{who} left"),
        (events.SESSION_EXPIRED, "X", "#c62f2f", "#ff7b72", "{who} sent no heartbeat for its session timeout"),
        (events.SUBSCRIPTION_CHANGED, "S", "#8a4bb0", "#c79bea", "{who} subscribed to other topics"),
        (events.METADATA_CHANGED, "M", "#3f51b5", "#a3abff", "{who} joined again with other metadata"),
        (events.PARTITIONS_CHANGED, "P", "#0b7780", "#4fc3cf", "a topic has other partitions; {who} joined again"),
        (events.LEADER_REJOINED, "R", "#8f5f00", "#e0a93a", "the leader, {who}, joined again"),
        (events.STATIC_MEMBER_BACK, "I", "#2f6fc0", "#7fb4f5", "{who} came back under its instance id"),
        (events.JOIN_TIMEOUT, "T", "#c2410c", "#ff9a5c", "{who} did not join again within the rebalance timeout"),
        (
            REVOCATION_TIMEOUT,
            *("V", "#a63a0a", "#f5834a"),
            "{who} did not give its partitions up within the rebalance timeout",
        ),
        (events.SYNC_TIMEOUT, "Y", "#b0480f", "#ffab78", "{who} did not sync within the rebalance timeout"),
        (
            events.ASSIGNMENT_TOO_LARGE,
            *("B", "#9c2755", "#f07fae"),
            "what the leader, {who}, gave out was larger than a record may be",
        ),
        (events.GROUP_FULL, "F", "#9c2755", "#f07fae", "there was no room for {who}"),
        (events.OVER_CAPACITY, "O", "#8c2a6a", "#e884c4", "the group had more members than are allowed"),
    )
}
UNKNOWN_CAUSE: Final = CauseWords("not known", sentence="nobody knows why")


def cause_words(cause: str | None) -> CauseWords:
    """The words for a cause. An unknown cause gets its own name."""
    if cause is None:
        return UNKNOWN_CAUSE
    plain = cause.replace("_", " ")
    return CAUSES.get(cause) or CauseWords(plain, sentence=plain)


def took_words(row: Mapping[str, Any]) -> str:
    """How long rebalances took: a range, unless the lengths were measured."""
    return span(row["took_ms"], row.get("took_least_ms"), row.get("took_most_ms"))


def sure_words(row: Mapping[str, Any]) -> str | None:
    """How sure the cause of a rebalance is: `85 % sure`. None: not known, or certain."""
    sure = row["confidence"]
    return None if sure is None or sure >= 1 else f"{percent(round(sure, 2))} sure"


def percent(share: float | None) -> str:
    """A share in percent; a share of 1 is 100 %."""
    if share is None:
        return NOT_KNOWN
    text = f"{share * 100:.1f}".removesuffix(".0")
    return f"{text} %"


def odd_times(groups: Sequence[Mapping[str, Any]], total: int) -> str:
    """A sentence that names groups (of `total`) with impossible times of commits. It is empty without such a group."""
    if not groups:
        return ""
    named = [
        f"{plain(row['group'], 32)} ({plural(row['commits'], 'commit')}, as of {moment(row['stated_ms'])})"
        for row in groups[:_GROUPS_NAMED]
    ]
    left = f" and {plural(total - len(named), 'more group')}" if total > len(named) else ""
    return f"times of commits that cannot be, taken from the log around them: {', '.join(named)}{left}"


def plain(text: str, width: int | None = None) -> str:
    """A text from a log, in the form for a terminal (`shown`). It is cut if it is longer than `width`."""
    text = shown(text)
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def who(client_id: str | None, host: str | None, instance_id: str | None, member_id: str | None) -> str:
    """The name of a member: its instance id, or else its client id, or else its member id."""
    name = instance_id or client_id or member_id
    if not name:
        return "a member"
    return f"{name} ({host.removeprefix('/')})" if host else name


def why(rebalance: Mapping[str, Any]) -> str:
    """A sentence about the cause of a rebalance; `rebalance` is a row of the table `rebalances`."""
    words = cause_words(rebalance["cause"])
    trigger = who(
        rebalance["trigger_client_id"],
        rebalance["trigger_host"],
        rebalance["trigger_instance_id"],
        rebalance["trigger_member_id"],
    )
    parts = words.sentence.format(who=trigger)
    if rebalance["cause"] == events.PARTITIONS_CHANGED and rebalance["trigger_member_id"] is None:
        parts = "a topic has other partitions"  # in a KIP-848 group the server notices the change
    reason = rebalance["reason"]
    return f"{parts}: “{reason}”" if reason else parts


def setting_words(settings_json: str | None) -> str:
    """The words for what a setting of the what-if changes."""
    given = json.loads(settings_json or "{}")
    parts = []
    for name, value in given.items():
        if isinstance(value, bool):
            parts.append(name if value else f"not {name}")
        elif name.endswith(".ms") and isinstance(value, int):
            parts.append(f"{name.removesuffix('.ms')} {duration(value)}")
        else:
            parts.append(f"{name} {value}")
    return ", ".join(parts) or "nothing changed"


OTHER: Final = "other"


def cause_class(cause: str | None) -> str:
    """The CSS class with the colour of a cause."""
    return f"c-{cause if cause in CAUSES else OTHER}"


def sheet() -> str:
    """The whole style sheet. On paper, the light colours apply."""
    words = {**CAUSES, OTHER: UNKNOWN_CAUSE}
    light = "".join(f".c-{cause}{{--c:{one.colour}}}" for cause, one in words.items())
    dark = "".join(f".c-{cause}{{--c:{one.on_dark}}}" for cause, one in words.items())
    return f"{_file('page.css')}{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"


def script() -> str:
    """The script that searches and sorts. Without the script, all content is still visible."""
    return _file("page.js")


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def mark(cause: str | None) -> Html:
    """The letter of a cause in its colour, as HTML. The caller writes the cause's name beside it."""
    words = cause_words(cause)
    return tag("span", words.mark, class_=f"mark {cause_class(cause)}", title=words.title, aria_hidden="true")


def legend(causes: Iterable[str | None]) -> Html:
    """The meaning of letters and colours."""
    return tag("p", (tag("span", mark(one), " ", cause_words(one).title) for one in causes), class_="legend")


def meter(value: float | None, actual: float | None) -> Html | None:
    """A bar that compares a figure with the real one.

    A full bar means at least twice the real figure, half a bar the same.
    """
    if value is None or not actual:
        return None
    share = min(value / actual / 2, 1.0)
    bar = tag("i", style=f"width:{share * 100:.1f}%")
    parts = f"{value / actual * 100:.0f} % of what it was"
    return tag("span", bar, class_="meter up" if value > actual else "meter", title=parts, role="img", aria_label=parts)


def compared(row: Mapping[str, float | None], name: str, text: str) -> Html:
    """A figure of a setting, in words and as a bar beside the real figure."""
    return join([text, meter(row[name], row[f"actual_{name}"])])
