"""What the outcome lines of consumer, share and streams groups have in common: errors, and one text for each group."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from muster.conform.player.stage import Stage, error_name, named
from muster.conform.player.story import Body


def message_text(stage: Stage, message: str | None) -> str:
    """` message="..."`; an empty text when the answer has no message."""
    return "" if message is None else named(message=json.dumps(stage.plain(message)))


def error_text(stage: Stage, body: Body) -> str:
    """The name of the error code of an answer or of a row, and its message."""
    return error_name(body["ErrorCode"]) + message_text(stage, body["ErrorMessage"])


def shown_groups(stage: Stage, groups: Iterable[Body], details: Callable[[Stage, Body], str]) -> str:
    """The text of each group of an answer. `details` makes what follows the error code of a group without error.

    An answer about one group has no name of the group.
    """
    rows = list(groups)
    names = [stage.group_name(group["GroupId"]) + ": " for group in rows] if len(rows) > 1 else [""] * len(rows)
    return "; ".join(
        name + error_text(stage, group) + ("" if group["ErrorCode"] else details(stage, group))
        for name, group in zip(names, rows, strict=True)
    )


def by_id(groups: Iterable[Body]) -> list[Body]:
    """The groups in the order of their ids, because Kafka's answers have any order."""
    return sorted(groups, key=lambda group: str(group["GroupId"]))


def epochs_text(group: Body) -> str:
    """The state, the epochs and the assignor of a group that is described."""
    return named(
        state=group["GroupState"],
        epoch=group["GroupEpoch"],
        assignment_epoch=group["AssignmentEpoch"],
        assignor=group.get("AssignorName"),
    )


def members_text(stage: Stage, group: Body, member: Callable[[Stage, Body], str]) -> str:
    """` members=[...]`, in the order of their texts, because Kafka's answers have any order."""
    return " members=[" + ", ".join(sorted(member(stage, one) for one in group["Members"])) + "]"
