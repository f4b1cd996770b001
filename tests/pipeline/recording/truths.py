"""Makes the truth of a recording: what its script did (script.jsonl), what the broker logged of every rebalance, and
which commits went back because of a script.

Times are ms since 1970. The lines of `truth.jsonl`, by their `kind`:

* `group`: `group`, `topic`, `partitions`, and the settings of its clients: `client`, `assignor`, `session_ms`,
  `heartbeat_ms`, `commit_ms`, `commits` (`auto`, `hand`, `transactions`), `max_poll_ms`, `static`,
  `protocol` (`classic`, `consumer`), `server_assignor` (of groups that are of KIP-848 at some time).
* `rebalance`: `group`, `generation` (the one it led to), `cause`, `trigger` (`client_id`), `acted` (when it began) and
  `settled` (when the assignment was complete), both by the broker's own log; `length_known` (false of a KIP-848 group:
  the broker does not log when the last member was ready); `died`: the members whose session ended in it, each with
  `client_id`, `noticed` and `last_life` (its own last sign of life, or when it was killed).
* `unsure`: `group`, `first`, `last`: generations that the broker does not explain (`last` null: to the end).
* `episode`: `group` (null: several, see `groups`), `what`, `from`, `until`, `members` (client ids). `what`:
  `formation`, `start` (again, after a whole stop), `rolling_restart` (with `static`; `hard`: its members are killed),
  `scale_out`, `scale_in`, `crash_loop`, `flapping`, `overlapping_deploy`, `slow_poller`, `deaths` (several at once),
  `whole_stop`, `trouble` (with `how`). `cut`: it began before the log, so nobody has to find it.
* `regression`: one incident: `group`, `cause` (`rewind`, `reset`, `second_application`; null: nobody meant it), `by`
  (client id), `from`, `until`, `partitions` (topic and number), `commits` (how many went back).
* `stall`: `group`, `topic`, `partitions`, `from`, `until`, `how` (`stick`: the same offset is committed again and
  again; `pause`: no commits; `sleep`: the member does not poll, and goes on by itself).
* `no_stall`: `group`, `why`: what may look like a stall and is none.
* `silence`: `from`, `until`, `how` (`away`, `away-early`, `away-frozen`, `away-late`, `away-short`, `away-twice`): the
  broker was away. With `groups`, only their coordinator was: `away-broker`, `lost-broker` (another broker took its
  place), `rolling-brokers` (as before, one broker after the other).
* `begins`: `at`, `how` (`compacted`, `cut`): the log is whole from then on (`begins`).
* `node`: `from`, `until`, `groups`, and the `members` that a node took with it.
* `incident`: `group`, `what`, `from`, `until`, and `members` (client ids) or none. `what`: `too_slow` (`read_per_s`,
  `written_per_s`, and `needed` members; `before`: what was written and read until then), `keeps_up` (it was meant to be
  too slow), `behind` (at the end, for another reason), `burst` (producers wrote more for a while), `poison` (`topic`,
  `partition`, `offset`), `skip` (`topic`, `partitions`, `at`, `records`: how many records nobody read; `meant`: to pass
  a poison record), `two_topics` (`topics` with the members of each application), `frozen`, `deleted`,
  `topic_recreated`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

from muster.pipeline.decode import decode
from muster.pipeline.sources.segments import read_segments
from muster.pipeline.sources.topics import reach_of_path
from tests.pipeline.recording.begins import since
from tests.pipeline.scripted_epochs import client_ids, epochs_truth
from tests.pipeline.scripted_truth import Action, truth

TOGETHER_MS: Final = 20_000
"""Actions within this time of each other are one event."""
LATE_MS: Final = 6_000
"""An action of a script shows in the next commits within this time."""
GAVE_UP: Final = "it gave the partitions up"
"""Why no partition of a group stood still whose members read another topic now."""
BEHIND: Final = 0.1
"""A group is too slow if it has not read this share of the records at the end."""
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ")
_BEGAN: Final = re.compile(r"Preparing to rebalance group (\S+) in state")
_ENDED: Final = re.compile(
    r"Assignment received from leader \S+ for group (\S+) for|Group (\S+) with generation \d+ is now empty"
)
_EPOCH: Final = r"\[GroupId (?P<group>\S+)\] (?:Static m|Dynamic m|M)ember (?P<member>\S+) (?:with instance id \S+ )?"
_DIED: Final = (
    re.compile(r"Member (?P<member>\S+) in group (?P<group>\S+) has failed, removing it from the group"),
    re.compile(_EPOCH + "fenced from the group because the member session expired"),
)
_LEFT: Final = (
    re.compile(r"\[Group (?P<group>\S+)\] Member (?P<member>\S+) has left group"),
    re.compile(_EPOCH + "(?:left the consumer group|has left group through explicit)"),
)
_CAME: Final = (
    re.compile(r"with id (?P<member>\S+) joins group (?P<group>\S+) in \S+ state\. Adding to the group"),
    re.compile(_EPOCH + "joins the consumer group"),
)
_UUID: Final = 36
_EPOCH_MS: Final = 20
"""The cause of a new epoch is at most this long before or after it."""
_SIGNS: Final = ("assigned", "revoked", "committed", "back", "killed", "told")
"""Lines of a member, or actions on it, that show that it lives."""


class Drop(NamedTuple):
    """A commit that went back."""

    group: str
    topic: str
    partition: int
    at_ms: int
    from_offset: int
    to_offset: int


def commits(logs: Path) -> Iterator[dict[str, Any]]:
    """All commits of a log."""
    for raw in read_segments(str(logs)):
        for batch in decode(raw):
            yield from (row for row in batch.to_pylist() if row["kind"] == "commit")


def drops(logs: Path) -> Iterator[Drop]:
    """All commits of a log that went back."""
    last: dict[tuple[str, str, int], int] = {}
    for row in commits(logs):
        key = row["group"], row["topic"], row["partition"]
        if row["is_tombstone"]:
            last.pop(key, None)
            continue
        offset = row["committed_offset"]
        if offset < last.get(key, offset):
            yield Drop(*key, row["log_timestamp_ms"], last[key], offset)
        last[key] = offset


def rates(
    lines: Sequence[Mapping[str, Any]], last: Mapping[tuple[str, str, int], int], ends: Mapping[tuple[str, int], int]
) -> Iterator[dict[str, Any]]:
    """Which groups are too slow, as measured. On a busy machine producers write less than they should. Then a group
    that should be too slow may keep up, and another one may be late. `last`: the last commits; `ends`: the ends of the
    partitions.
    """
    groups = {line["group"]: line for line in lines if line["kind"] == "group"}
    silences = [(line["from"], line["until"]) for line in lines if line["kind"] == "silence" and "groups" not in line]
    over = max((one["at"] for one in lines if one["kind"] == "end"), default=0)
    meant = {line["group"]: line for line in lines if line["kind"] == "incident" and line["what"] == "too_slow"}
    other = {line["group"] for line in lines if line["kind"] == "stall"}
    other |= {line["group"] for line in lines if line["kind"] == "no_stall" and line["why"] == GAVE_UP}
    begun = {line["group"]: line["from"] for line in reversed(lines) if line["kind"] == "episode" and line["group"]}
    for name, group in groups.items():
        line = meant.get(name, {"group": name, "kind": "incident", "from": begun.get(name, over), "until": over})
        lasted_s = max((over - line["from"]) / 1000, 1)
        away_s = sum(max(until - max(since, line["from"]), 0) for since, until in silences) / 1000
        places = [place for place in ends if (name, *place) in last]
        before = line.get("before", {"written": 0, "read": 0})
        written = sum(ends[place] for place in places) - before["written"]
        read = sum(last[name, *place] for place in places) - before["read"]
        # producers keep their records while the broker is away, and members read none
        written_per_s, read_per_s = written / lasted_s, max(read, 1) / max(lasted_s - away_s, 1)
        waiting = written_per_s * group["commit_ms"] / 1000
        is_behind = written - read > BEHIND * written + waiting
        rates = {"read_per_s": round(read_per_s, 1), "written_per_s": round(written_per_s, 1)}
        if name in meant:
            needed = ceil(len(line["members"]) * written_per_s / max(read_per_s, 0.1))
            yield {**line, "what": "too_slow" if is_behind else "keeps_up", "needed": needed, **rates}
        elif is_behind and name not in other:
            yield {**line, "what": "behind", "members": [], **rates}


def after_nodes(lines: Sequence[Mapping[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """While a lost node has all slow members, the others keep up: so a group is too slow since their return."""
    nodes = [line for line in lines if line["kind"] == "node"]

    def began(line: dict[str, Any]) -> dict[str, Any]:
        back = (one["until"] for one in nodes if line["members"] and {*line["members"]} <= {*one["members"]})
        return {**line, "from": max([line["from"], *back])}

    return began


def assembled(directory: Path) -> Iterator[dict[str, Any]]:
    """The lines of the truth of the recording in a folder (`record`)."""
    lines, journal = _read(directory / "script.jsonl"), _read(directory / "journal.jsonl")
    log = (directory / "kafka.log").read_text(errors="replace").splitlines()
    ends = {line["group"]: line["at"] for line in lines if line["kind"] == "end"}
    made = [line for line in lines if line["kind"] == "drops"]
    yield from (line for line in lines if line["kind"] not in ("drops", "end") and line.get("what") != "too_slow")
    logs = directory / "data" / "logs"
    last = {(row["group"], row["topic"], row["partition"]): row["committed_offset"] or 0 for row in commits(logs)}
    yield from map(after_nodes(lines), rates(lines, last, reach_of_path(str(logs)).reach.ends))
    epochs = {line["group"] for line in lines if line["kind"] == "group" and "server_assignor" in line}
    yield from _rebalances(log, journal, ends, epochs, client_ids(directory / "data" / "logs") if epochs else {})
    own = {line["group"] for line in lines if line["kind"] == "group" and line["rewinds"]}
    yield from _regressions(made, list(drops(directory / "data" / "logs")), ends, own)


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(directory: Path) -> None:
    """Write `truth.jsonl` into the folder."""
    with (directory / "truth.jsonl").open("w", encoding="utf-8") as out:
        for line in since(assembled(directory)):
            out.write(json.dumps(line) + "\n")


def _actions(journal: Sequence[Mapping[str, Any]]) -> list[Action]:
    """What the script let members do, or did to topics, that makes them join again."""
    reported = [
        Action(line["at"], line["group"], "subscription_changed", line["client_id"])
        for line in journal
        if line["what"] == "told" and line["line"].startswith("subscribe")
    ]
    grown = [
        Action(line["at"], line["group"], "partitions_changed", None)
        for line in journal
        if line["what"] in ("grown", "new_topic")
    ]
    return reported + grown


def _rebalances(
    log: Sequence[str],
    journal: Sequence[Mapping[str, Any]],
    ends: Mapping[str, int],
    epochs: Collection[str],
    clients: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """`epochs`: groups of KIP-848, for some time at least; `clients`: client ids of their members."""
    died, left, came = (_members(log, patterns, clients) for patterns in (_DIED, _LEFT, _CAME))
    actions = _actions(journal)
    classic = truth(log, actions, ends)
    raised = epochs_truth(log, clients, actions, {group: at_ms for group, at_ms in ends.items() if group in epochs})
    is_epoch = [(line, place) for place, lines in enumerate((classic, raised)) for line in lines]
    last: dict[str, int] = {}
    for line, by_epoch in is_epoch:
        if line["kind"] != "rebalance":
            if line["last"] is not None:
                yield line
            continue
        group = line["group"]
        last[group] = max(last.get(group, 0), line["generation"])
        low, high = line["acted"] - 5, line["acted"] + _EPOCH_MS if by_epoch else line["settled"]
        line["length_known"] = not by_epoch  # the broker does not log when all members were there
        line["died"] = [
            {"client_id": client_id, "noticed": at_ms, "last_life": _last_life(journal, client_id, at_ms)}
            for at_ms, client_id in died[group]
            if low <= at_ms <= high
        ]
        for name, known in (("left", left), ("came", came)):
            line[name] = [who for at_ms, who in known[group] if low <= at_ms <= high]
        yield line
    for group in ends:
        yield {"kind": "unsure", "group": group, "first": last.get(group, 0) + 1, "last": None}


def _members(
    log: Iterable[str], patterns: Sequence[re.Pattern[str]], clients: Mapping[str, str]
) -> dict[str, list[tuple[int, str]]]:
    """By group: when the broker logged that line about a member, and its client id."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for line in log:
        time, who = _TIME.match(line), next(filter(None, (one.search(line) for one in patterns)), None)
        if time is not None and who is not None:
            at_ms = round(datetime.strptime(time[1], "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp() * 1000)
            member = who["member"]
            found[who["group"]].append((at_ms, clients.get(member, member[: -_UUID - 1])))
    return found


def _last_life(journal: Iterable[Mapping[str, Any]], client_id: str, until_ms: int) -> int | None:
    """When the member was last known to live: by its own lines, or when it was killed."""
    return max(
        (
            line["at"]
            for line in journal
            if line.get("client_id") == client_id and line["what"] in _SIGNS and line["at"] <= until_ms
        ),
        default=None,
    )


def _regressions(
    made: Sequence[Mapping[str, Any]], found: Sequence[Drop], ends: Mapping[str, int], own_places: Collection[str]
) -> Iterator[dict[str, Any]]:
    """The regressions that a script made, with all commits of theirs that went back. `own_places`: groups that go back
    whenever they get partitions. A regression that no script made stands without a cause, commit by commit.
    """
    left = [one for one in found if one.at_ms <= ends.get(one.group, 0)]
    for line in made:
        of_it = [
            one for one in left if one.group == line["group"] and line["from"] <= one.at_ms <= line["until"] + LATE_MS
        ]
        left = [one for one in left if one not in of_it]
        if of_it:
            yield _regression(line["group"], line["cause"], line.get("by"), of_it)
    for group in own_places:
        of_it = [one for one in left if one.group == group]
        left = [one for one in left if one not in of_it]
        for _, some in groupby(of_it, lambda one: one.at_ms // TOGETHER_MS):
            yield _regression(group, "rewind", None, list(some))
    for one in left:
        yield _regression(one.group, None, None, [one])


def _regression(group: str, cause: str | None, by: str | None, some: Sequence[Drop]) -> dict[str, Any]:
    return {
        "kind": "regression", "group": group, "cause": cause, "by": by,
        "from": min(one.at_ms for one in some), "until": max(one.at_ms for one in some),
        "partitions": sorted({(one.topic, one.partition) for one in some}), "commits": len(some),
    }  # fmt: skip


if __name__ == "__main__":
    write(Path(sys.argv[1]))
