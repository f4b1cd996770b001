"""What of a truth the log shows: a script may ask a client for something that this client does not do.

On a busy machine a member gets a line late, or loses its partition before that. Then the truth would call a partition
stalled that goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

Row = Mapping[str, Any]

EDGE: Final = 0.15
"""This share of a stall, at its start and at its end, does not count: the member may get its line late."""
MOVES: Final = 3
"""A partition with so many different offsets between did not stall."""
TOGETHER_MS: Final = 60_000
"""Two applications must be members of one generation for at least this long."""
BACK_MS: Final = 10_000
"""After the broker's absence, members need some time until they are back: after a short one, less."""
SHOWN_MS: Final = 40_000
"""A stall that the log shows for a shorter time counts for nothing. While the broker is away, a log shows nothing."""
SKIPPED_MS: Final = 20_000
"""The step over skipped records comes this soon after a script asked for it."""
SLEEP: Final = "sleep"
"""How a stall is called that ends by itself: the member did not poll for some time."""
SILENT_MS: Final = 100_000
"""A member that does not poll commits nothing. For a shorter time, the log only shows that it is silent."""
UNSEEN: Final = "unseen"
"""What an incident is called that the log does not show: nobody knows whether the group is fine."""


def seen(truth: Sequence[Row], commits: Sequence[Row], generations: Sequence[Row]) -> list[dict[str, Any]]:
    """The truth, without stalls whose partitions went on, or that the log hardly shows.

    Two applications that never met are called UNSEEN. So are records that a member skipped which keeps up: the log
    shows the same if it reads them. A skip also needs its step in the commits. UNSEEN is a process, too, that was
    frozen only while no client reached the broker. So is a poison record of a partition without a commit: its stall is
    left out. So is a group without a record in the log.
    """
    found = []
    groups = {one["group"] for one in (*commits, *generations)}
    absences = [line for line in truth if line["kind"] == "silence"]
    troubles = [(one["from"], one["until"]) for one in truth if one.get("what") == "trouble"]
    end_ms = max((one.get("until") or one.get("at") or 0 for one in truth), default=0)
    stuck = [*_by_partition(truth, commits), *_unwritten(truth)]
    stopped = _stopped(truth)
    forgotten = _forgotten(truth, _silences(absences, None))
    for line in map(dict, [*stuck, *_again(truth, stuck, commits)]):
        silences = _silences(absences, line.get("group"))
        if line["kind"] == "rebalance" and (line["group"], line["generation"], line["settled"]) in forgotten:
            continue
        is_stuck = line["kind"] == "stall" or (line["kind"] == "incident" and line["what"] == "poison")
        if is_stuck:
            (partition,) = line.get("partitions", [line.get("partition")])
            if not _is_ever_committed(line, partition, commits):
                # without a commit of the partition, no log shows how far its reader is
                if line["kind"] == "incident":
                    found.append({**line, "what": UNSEEN})
                continue
            is_over = _went_on(line, partition, commits)
            _lasts_as_shown(line, partition, commits, end_ms, stopped.get(line["group"]))
            least_ms = SILENT_MS if line.get("how") == SLEEP else SHOWN_MS
            if is_over or _shown_ms(line, line["until"], silences) < least_ms:
                continue
        if line["kind"] == "group" and line["group"] not in groups:
            continue
        if line["kind"] == "episode" and line["what"] == "crash_loop":
            line["losses"] = _losses(line, generations)
        if line["kind"] == "incident" and _is_unseen(line, [*silences, *troubles], silences, commits):
            line["what"] = UNSEEN
        elif line["kind"] == "stall":
            line["shown"] = _shown_ms(line, line["until"], silences)
        elif line["kind"] == "incident" and line["what"] == "two_topics" and not _met(line, generations):
            line["what"] = UNSEEN
        found.append(line)
    return [*found, *_unexplained(truth, generations)]


def _stopped(truth: Sequence[Row]) -> dict[str, int]:
    """When groups were stopped for good: then nothing of them stands still any more."""
    started = {line["group"]: line["at"] for line in truth if line["kind"] == "act" and line["what"] == "starts"}
    return {
        line["group"]: line["until"] for line in truth
        if line["kind"] == "episode" and line["what"] == "whole_stop" and line["until"] > started.get(line["group"], 0)
    }  # fmt: skip


def _silences(absences: Iterable[Row], group: str | None) -> list[tuple[int, int]]:
    """When the coordinator of the group was away; None: when all coordinators were away."""
    found = list[tuple[int, int]]()
    some = (line for line in absences if group in line.get("groups", (group,)))
    for since, until in sorted((line["from"], line["until"]) for line in some):
        found.append((max([since, *(one[1] for one in found)]), until))  # one silence may lie in another one
    return found


def _losses(line: Row, generations: Iterable[Row]) -> int:
    """How often the members of a crash loop were lost after they had been members: a process may die before that."""
    in_order = sorted((one for one in generations if one["group"] == line["group"]), key=lambda one: one["start_ms"])
    ids = [
        {each["member_id"] for each in one["members"] or () if each["client_id"] in line["members"]} for one in in_order
    ]
    return sum(len(were - are) for were, are in pairwise(ids))


def _unexplained(truth: Iterable[Row], generations: Iterable[Row]) -> Iterable[dict[str, Any]]:
    """The members that are missing from a generation that the broker does not explain: they left or were lost."""
    in_order = sorted(generations, key=lambda one: (one["group"], one["start_ms"]))
    for before, after in pairwise(in_order):
        if before["group"] == after["group"] and any(
            line["kind"] == "unsure" and line["group"] == after["group"] and line["last"] is not None
            and line["first"] <= (after["generation"] or 0) <= line["last"] for line in truth
        ):  # fmt: skip
            were, are = ({one["client_id"] for one in row["members"] or ()} for row in (before, after))
            yield {"kind": "unexplained", "group": after["group"], "at": after["start_ms"], "gone": sorted(were - are)}


def _forgotten(truth: Iterable[Row], silences: Iterable[tuple[int, int]]) -> set[tuple[str, int, int]]:
    """The rebalances that ended while the broker stopped. It did not write them down, and counted on from before."""
    some = [(line["group"], line["generation"], line["settled"]) for line in truth if line["kind"] == "rebalance"]
    return {
        one for one in some
        if any(since <= one[2] <= until for since, until in silences)
        and any(later[:2] == one[:2] and later[2] > one[2] for later in some)
    }  # fmt: skip


def _is_unseen(
    line: Row, away: Iterable[tuple[int, int]], silences: Iterable[tuple[int, int]], commits: Iterable[Row]
) -> bool:
    if line["what"] == "frozen":
        return any(since <= line["from"] and line["until"] <= until for since, until in away)
    if line["what"] != "skip" or not line["members"]:
        return line["what"] == "skip" and not _is_committed_before(line, commits)
    # just after a silence, a member commits what it had read before, so a step is no skip
    return any(since <= line["from"] <= until + BACK_MS for since, until in silences) or not _skipped(line, commits)


def _is_committed_before(line: Row, commits: Iterable[Row]) -> bool:
    """Whether the log has a commit from before the skip: without it, nobody sees a step."""
    places = {(line["group"], line.get("topic"), partition) for partition in line.get("partitions", ())}
    return not places or any(
        one["time_ms"] < line["from"] and (one["group"], one["topic"], one["partition"]) in places for one in commits
    )


def _by_partition(truth: Iterable[Row], commits: Sequence[Row]) -> Iterable[Row]:
    """The truth with a line for each partition that stood still.

    A member may get its partitions only while it does not poll. Then they are those that nobody commits meanwhile.
    """
    for line in truth:
        if line["kind"] == "stall":
            some = line["partitions"] or _not_committed(line, commits)
            yield from ({**line, "partitions": [partition]} for partition in some)
        else:
            yield line


def _not_committed(line: Row, commits: Sequence[Row]) -> list[int]:
    edge_ms = EDGE * (line["until"] - line["from"])
    mine = [one for one in commits if (one["group"], one["topic"]) == (line["group"], line["topic"])]
    known = {one["partition"] for one in mine if one["time_ms"] < line["from"] + edge_ms}
    still = [one for one in mine if line["from"] + edge_ms <= one["time_ms"] <= line["until"] - edge_ms]
    return sorted(known - {one["partition"] for one in still})


def _unwritten(truth: Sequence[Row]) -> Iterable[Row]:
    """The stalls that a script made, though it ended before it wrote them down."""
    acts = [line for line in truth if line["kind"] == "act"]
    topics = {line["group"]: line["topic"] for line in truth if line["kind"] == "group"}
    written = [line for line in truth if line["kind"] == "stall"]
    for act in acts:
        if act["what"] not in ("stick", "pause"):
            continue
        partition = int(act["line"].split()[1])
        if any(one["group"] == act["group"] and one["from"] <= act["at"] <= one["until"] for one in written):
            continue
        until_ms = _until_ms(act, acts) or act["at"]
        yield {"kind": "stall", "group": act["group"], "topic": topics.get(act["group"], ""), "partitions": [partition],
               "how": act["what"], "from": act["at"], "until": until_ms}  # fmt: skip


def _until_ms(act: Row, acts: Iterable[Row]) -> int | None:
    """The end of a standstill that a member was asked for: the member ended, or was asked to go on."""
    partition = act["line"].split()[1]
    return min(
        (line["at"] for line in acts if line["at"] > act["at"] and line["client_id"] == act["client_id"]
         and (line["what"] in ("killed", "told", "starts", "stop") or line["line"] == f"go {partition}")),
        default=None,
    )  # fmt: skip


def _again(truth: Sequence[Row], known: Sequence[Row], commits: Sequence[Row]) -> Iterable[Row]:
    """The stalls of members that got their partition back after another member had read it for a moment."""
    acts = [line for line in truth if line["kind"] == "act"]
    for act in acts:
        until_ms = _until_ms(act, acts) if act["what"] in ("stick", "pause") else None
        if until_ms is None:
            continue
        partition = int(act["line"].split()[1])
        mine = [one for one in known if one["kind"] == "stall" and one["group"] == act["group"]
                and one["partitions"] == [partition]]  # fmt: skip
        some = sorted(
            (one["time_ms"], one["committed_offset"]) for one in commits
            if mine and (one["group"], one["topic"], one["partition"]) == (act["group"], mine[0]["topic"], partition)
        )  # fmt: skip
        moved_ms = max((later[0] for one, later in pairwise(some) if one[1] != later[1]), default=None)
        if moved_ms is not None and moved_ms > max(one["until"] for one in mine) and until_ms - moved_ms >= SHOWN_MS:
            yield {**mine[-1], "from": moved_ms, "until": until_ms}


def _shown_ms(line: Row, until_ms: int, silences: Iterable[tuple[int, int]]) -> int:
    """How long a stall lasted while the broker was there, and the group was whole again."""
    away_ms = sum(
        max(min(until + min(BACK_MS, until - since), until_ms) - max(since, line["from"]), 0)
        for since, until in silences if until > since
    )  # fmt: skip
    return int(until_ms - line["from"] - away_ms)


def _went_on(line: Row, partition: int, commits: Iterable[Row]) -> bool:
    edge_ms = EDGE * (line["until"] - line["from"])
    offsets = {
        one["committed_offset"] for one in commits
        if (one["group"], one["topic"], one["partition"]) == (line["group"], line["topic"], partition)
        and line["from"] + edge_ms <= one["time_ms"] <= line["until"] - edge_ms
    }  # fmt: skip
    return len(offsets) >= MOVES


def _is_ever_committed(line: Row, partition: int, commits: Iterable[Row]) -> bool:
    place = line["group"], line["topic"], partition
    return any(
        one["time_ms"] < line["until"] and (one["group"], one["topic"], one["partition"]) == place for one in commits
    )


def _lasts_as_shown(
    line: dict[str, Any], partition: int, commits: Iterable[Row], end_ms: int, stopped_ms: int | None
) -> None:
    """A stall lasts until the log shows another offset: a client may not go on, or another member reads on.

    At the latest it ends with its group.
    """
    if line.get("how") == SLEEP:
        return
    place = line["group"], line["topic"], partition
    some = sorted((one["time_ms"], one["committed_offset"]) for one in commits
                  if (one["group"], one["topic"], one["partition"]) == place)  # fmt: skip
    stuck = {offset for at_ms, offset in some if at_ms <= line["until"]}
    moved_ms = min((at_ms for at_ms, offset in some if at_ms > line["until"] and offset not in stuck), default=None)
    line["until"] = moved_ms or max(stopped_ms or end_ms, line["until"])
    line["open"] = moved_ms is None and stopped_ms is None


def _skipped(line: Row, commits: Iterable[Row]) -> bool:
    """Do the commits of a member that was far behind have the step over the records that it skipped?

    A member that has just lost its partitions cannot skip any.
    """
    times: dict[int, list[tuple[int, int]]] = {}
    for one in commits:
        is_then = line["from"] - SKIPPED_MS <= one["time_ms"] <= line["until"] + SKIPPED_MS
        if is_then and (one["group"], one["topic"]) == (line["group"], line.get("topic")):
            times.setdefault(one["partition"], []).append((one["time_ms"], one["committed_offset"]))
    steps = [after[1] - before[1] for some in times.values() for before, after in pairwise(sorted(some))]
    return bool(line.get("shown")) and max(steps, default=0) >= line["records"]


def _met(line: Row, generations: Iterable[Row]) -> bool:
    together_ms = 0
    for one in generations:
        topics = {topic for member in one["members"] or () for topic in member["topics"] or ()}
        if one["group"] == line["group"] and len(topics & set(line["topics"])) > 1:
            together_ms += (line["until"] if one["end_ms"] is None else one["end_ms"]) - one["start_ms"]
    return together_ms >= TOGETHER_MS
