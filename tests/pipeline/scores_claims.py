"""Sentences of verdict, summary and page, judged by the truth: which of them are false, and whether levels are right.

Each sentence is one claim: a rule, a group, names of members or partitions, and a time. A claim is true if a line of
the truth, or an act of the script (`acts`), supports it. What no line supports is false: a script writes down all that
it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.pipeline.scores_advice import worth
from tests.pipeline.scores_episodes import Row, Truth, happenings, is_false
from tests.pipeline.scores_seen import SLEEP, UNSEEN

HELP, LOOK, FINE = "help", "look", "fine"
SLACK_MS: Final = 20_000
"""The time of a claim may differ from the true time by this much."""
BEFORE_MS: Final = 120_000
"""A claim may come this time after the act that explains it: the session of the member had to end first."""
AFTER_MS: Final = 60_000
"""A claim about sessions that a silence ended may come this time after the silence."""
MANY: Final = 10
"""A group with this many rebalances may be called unstable."""
COVERED: Final = 0.5
"""A stall is true if a true one covers this share of it."""
STILL: Final = ("STALL", "STOP")
_TWICE: Final = 2
_NEAR_MS: Final = 2_000
"""A rebalance may differ from the time of its claim by this much."""


class Said(NamedTuple):
    """One sentence, as a claim."""

    rule: str
    """A kind of episode, a cause of the table `regressions`, `stalled`, `fine`, or another rule of the claims."""
    group: str
    text: str
    who: tuple[str, ...] = ()
    """Client ids or partitions (`topic-3`)."""
    from_ms: int | None = None
    until_ms: int | None = None
    """None: the whole log."""


def acts(journal: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The lines of a journal about what the script did to a member or a group, as lines of a truth."""
    wanted = ("starts", "killed", "frozen", "thawed", "told", "reset", "deleted", "grown", "forgotten")
    return [
        {"kind": "act", "group": line["group"], "client_id": line.get("client_id"), "at": line["at"],
         "what": _verb(line["line"]) if line["what"] == "told" else line["what"], "line": line.get("line", "")}
        for line in journal
        if line["what"] in wanted and line.get("by") in ("script", "tool")
    ]  # fmt: skip


def _verb(line: str) -> str:
    """What a line asks a member for. A member that hangs sleeps until its next line."""
    verb = line.split()[0]
    return SLEEP if verb == "hang" else verb


class Known:
    """What is true of a log."""

    def __init__(self, truth: Truth) -> None:
        self.lines: dict[str, list[Mapping[str, Any]]] = {}
        for line in truth:
            self.lines.setdefault(line["kind"], []).append(line)
        self.happenings = happenings(truth)
        self.rebalances = self.lines.get("rebalance", [])
        self.end_ms = max((line.get("until") or line.get("at") or 0 for line in truth), default=0)

    def silences(self, group: str, *, all_of_them: bool = False) -> list[tuple[int, int]]:
        """When the coordinator of the group, or several hosts, were away; or when any broker was."""
        some = [line for line in self.lines.get("silence", ()) if all_of_them or group in line.get("groups", (group,))]
        some += [line for line in self.lines.get("episode", ()) if line["what"] == "trouble"]
        return [(line["from"], line["until"]) for line in some]

    def of(self, kind: str, group: str, what: str | None = None) -> list[Mapping[str, Any]]:
        """The lines of a kind about a group."""
        some = [line for line in self.lines.get(kind, ()) if line["group"] == group]
        return some if what is None else [line for line in some if line["what"] == what]

    def rebalances_of(self, group: str) -> int:
        """How many rebalances the broker saw, also those whose causes nobody knows."""
        unsure = [line for line in self.of("unsure", group) if line["last"] is not None]
        known = sum(line["group"] == group for line in self.rebalances)
        return known + sum(line["last"] - line["first"] + 1 for line in unsure)

    def acts(self, said: Said, who: str | None, *whats: str) -> list[Mapping[str, Any]]:
        """The acts that explain what is said of a member (None: of the group)."""
        from_ms = 0 if said.from_ms is None else said.from_ms - BEFORE_MS
        until_ms = self.end_ms if said.until_ms is None else said.until_ms + SLACK_MS
        return [
            line for line in self.lines.get("act", ())
            if line["group"] == said.group and line["what"] in whats and from_ms <= line["at"] <= until_ms
            and who in (None, line["client_id"])
        ]  # fmt: skip

    def was_lost(self, said: Said, who: str) -> bool:
        """Whether the broker removed the member: on a busy machine a living process may be late."""
        from_ms, until_ms = said.from_ms or 0, self.end_ms if said.until_ms is None else said.until_ms
        return any(
            line["group"] == said.group and line["acted"] <= until_ms + SLACK_MS
            and line["settled"] >= from_ms - SLACK_MS and who in _lost(line)
            for line in self.rebalances
        ) or any(
            who in line["gone"] and from_ms - SLACK_MS <= line["at"] <= until_ms + SLACK_MS
            for line in self.of("unexplained", said.group)
        )  # fmt: skip

    def was_killed_apart(self, said: Said, who: str) -> bool:
        """Whether the member was killed then, so long before or after a silence that this explains nothing.

        If living members were lost in the same rebalance, the log shows the same of all. Their sessions may have ended
        one after the other.
        """
        from_ms, until_ms = said.from_ms or 0, self.end_ms if said.until_ms is None else said.until_ms
        kills = {line["at"] for line in self.acts(said, who, "killed")}
        session_ms = max((line.get("session_ms", 0) for line in self.of("group", said.group)), default=0)
        rows = [
            line for line in self.rebalances
            if line["group"] == said.group and from_ms - _NEAR_MS <= line["settled"]
            and line["acted"] <= until_ms + _NEAR_MS
        ]  # fmt: skip
        died = [line["died"] for line in rows if any(one["client_id"] == who for one in line["died"])]
        ends = [one["last_life"] for some in died for one in some if one["client_id"] == who]
        killed = {line["at"] for line in self.acts(said, None, "killed")}
        is_alone = all(one["last_life"] in killed for some in died for one in some)
        before_ms = 2_000 + session_ms * (1 if is_alone else 2)
        return bool(ends) and all(
            at_ms in kills and not any(begin - before_ms <= at_ms <= end for begin, end in self.silences(said.group))
            for at_ms in ends
        )

    def came(self, said: Said, who: str) -> bool:
        """Whether the broker saw the member join then."""
        return any(
            line["group"] == said.group and self.near(said, [{"from": line["acted"], "until": line["settled"]}])
            and (who in line.get("came", ()) or who == (line.get("trigger") or {}).get("client_id"))
            for line in self.rebalances
        )  # fmt: skip

    def present(self, group: str) -> set[str]:
        """The members at the end, as the broker saw them."""
        found: set[str] = set()
        for line in sorted((one for one in self.rebalances if one["group"] == group), key=lambda one: one["settled"]):
            who = (line["trigger"] or {}).get("client_id")
            gone = {*line.get("left", ()), *(one["client_id"] for one in line["died"])}
            found -= gone | ({who} if line["cause"] in ("member_left", "session_expired") else set())
            found |= {*line.get("came", ()), *([who] if line["cause"] == "member_joined" else ())}
        return found

    def not_back(self, group: str) -> set[str]:
        """The members that the broker removed, and that did not join again."""
        found: set[str] = set()
        for line in sorted((one for one in self.rebalances if one["group"] == group), key=lambda one: one["settled"]):
            joined = [(line["trigger"] or {}).get("client_id")] if line["cause"] == "member_joined" else []
            found = (found | {one["client_id"] for one in line["died"]}) - {*line.get("came", ()), *joined}
        return found - self.present(group)

    def near(self, said: Said, lines: Iterable[Mapping[str, Any]], after_ms: int = SLACK_MS) -> bool:
        """Whether one of the lines touches the time of the claim."""
        return any(
            (said.until_ms is None or line["from"] - SLACK_MS <= said.until_ms)
            and (said.from_ms is None or said.from_ms <= line["until"] + after_ms)
            for line in lines
        )

    def stalls(self, group: str, name: str) -> list[tuple[int, int]]:
        """When a partition (`topic-3`) truly stood still."""
        return [
            (line["from"], self.end_ms if self._is_open(line) else line["until"])
            for line in self.of("stall", group)
            for partition in line["partitions"]
            if name == f"{line['topic']}-{partition}"
        ]

    def _is_open(self, stall: Mapping[str, Any]) -> bool:
        """Whether nobody let the partition go."""
        if "open" in stall:
            return bool(stall["open"])
        return stall.get("how") != SLEEP and not any(
            line["what"] == "go" and line["at"] >= stall["until"] - SLACK_MS
            and int(line["line"].split()[1]) in stall["partitions"]
            for line in self.lines.get("act", ()) if line["group"] == stall["group"]
        )  # fmt: skip

    def has_open_stall(self, group: str) -> bool | None:
        """Whether a partition of the group stands still at the end. None: its next owner may read it."""
        open_ = [line for line in self.of("stall", group) if self._is_open(line)]
        since = max((line["until"] for line in open_), default=0)
        if open_ and any(line["group"] == group and line["settled"] > since for line in self.rebalances):
            return None
        return bool(open_)

    def unread(self, group: str) -> list[tuple[int, int]]:
        """When partitions had no reader because a member was dead and nobody had noticed it."""
        return [
            (min(one["last_life"] or line["acted"] for one in line["died"]), line["settled"])
            for line in self.rebalances
            if line["group"] == group and line["died"]
        ]


# ---- levels

_IN_NEED: Final = frozenset({"crash_loop", "flapping", "slow_poller"})


def levels(truth: Truth) -> dict[str, frozenset[str]]:
    """The right levels of each group: more than one if the truth leaves it open."""
    known = Known(truth)
    return {line["group"]: _level(known, line["group"]) for line in known.lines.get("group", ())}


def _level(known: Known, group: str) -> frozenset[str]:
    whats = {one.what for one in known.happenings if one.group == group and one.confirmed}
    incidents = {line["what"] for line in known.of("incident", group)}
    second = any(line["cause"] == "second_application" for line in known.of("regression", group))
    if whats & _IN_NEED or second or known.has_open_stall(group) or "too_slow" in incidents:
        return frozenset({HELP})
    if incidents & {"skip", "two_topics"} or known.has_open_stall(group) is None:
        return frozenset({HELP, LOOK})
    if UNSEEN in incidents:
        return frozenset({HELP, LOOK, FINE})
    lost = known.not_back(group)
    if lost and not known.present(group):
        return frozenset({HELP, LOOK})
    if "deaths" in whats or "frozen" in incidents or known.of("stall", group):
        return frozenset({LOOK})
    # a member that was killed may be back
    lost |= {line["client_id"] for line in known.lines.get("act", ()) if line["group"] == group
             and line["what"] == "killed"}  # fmt: skip
    # on a busy machine the broker's lines do not always explain a death
    lost |= {one.what for one in known.happenings if one.group == group and one.what == "deaths"}
    may_look = bool(lost) or "trouble" in whats or known.rebalances_of(group) >= MANY
    may_look |= "behind" in incidents
    may_look |= any(group in line.get("groups", ()) for line in known.lines.get("silence", ()))
    return frozenset({FINE, LOOK} if may_look else {FINE})


# ---- claims


def all_said(tables: Mapping[str, Sequence[Row]]) -> list[Said]:
    """All sentences of the tables that verdict, summary and page show."""
    return [
        *(one for row in tables.get("verdicts", ()) for one in _of_verdict(row)),
        *(Said(row["kind"], row["group"], row["sentence"], tuple(row.get("members") or ()), row["from_ms"],
               row["until_ms"]) for row in tables.get("episodes", ())),
        *(Said("stalled", row["group"], f"{row['topic']}-{row['partition']} {row['status']}",
               (f"{row['topic']}-{row['partition']}",), row["start_ms"], row["end_ms"])
          for row in tables.get("stalls", ()) if row["status"] in STILL),
        *(Said(row["cause"], row["group"], f"commits went back: {row['cause']}", (), row["time_ms"], row["time_ms"])
          for row in tables.get("regressions", ())),
    ]  # fmt: skip


def _of_verdict(row: Row) -> list[Said]:
    return [
        Said(one["rule"], row["group"], one["text"], tuple(one["who"] or ()), one["from_ms"], one["until_ms"])
        for one in row["claims"] or ()
    ]


Judge = Callable[[Said, Known], str | None]
"""Why a claim is false; None: it is true."""


def _loops(said: Said, known: Known) -> str | None:
    whats = ("killed", "stop", "sleep", "frozen") if "coming back" in said.text else ("killed",)
    short = [who for who in said.who if len(known.acts(said, who, *whats)) < _TWICE]
    return f"{short} were not killed twice" if short or not said.who else None


def _flaps(said: Said, known: Known) -> str | None:
    short = [who for who in said.who if len(known.acts(said, who, "stop", "killed")) < _TWICE]
    return f"{short} did not leave twice" if short or not said.who else None


def _slow(said: Said, known: Known) -> str | None:
    awake = [who for who in said.who if not known.acts(said, who, "sleep")]
    return f"{awake} always polled in time" if awake or not said.who else None


def _dead(said: Said, known: Known) -> str | None:
    for who in said.who:
        if known.acts(said, who, "killed"):
            continue
        if not known.acts(said, who, "frozen", "sleep", "stop") and not known.was_lost(said, who):
            return f"nothing happened to {who}"
        if re.search(r"\bdied\b(?! or)|\bdeaths?\b|replaced", said.text):
            return f"{who} did not die"
    return None


def _trouble(said: Said, known: Known) -> str | None:
    # a broker also leads partitions of topics, and coordinates transactions
    some = known.silences(said.group, all_of_them=said.rule != SILENCE)
    lines = [{"from": from_ms, "until": until_ms} for from_ms, until_ms in some]
    if _is_of_node(said, known):
        return None
    if not known.near(said, lines, AFTER_MS):
        return "nothing was wrong with broker or hosts"
    killed = [who for who in said.who if "lost" in said.text and known.was_killed_apart(said, who)]
    return f"{killed} were killed while the broker was there" if killed else None


def _is_of_node(said: Said, known: Known) -> bool:
    """Whether a claim says that a host is lost, and a node took the members with it that the claim names."""
    return "host" in said.text and any(
        known.near(said, [line]) and {*said.who} <= {*line["members"]}
        for line in known.lines.get("node", ()) if said.group in line["groups"]
    )  # fmt: skip


def _stop(said: Said, known: Known) -> str | None:
    if "coordinator or network" in said.text:
        return _trouble(said, known)
    if "lost" in said.text and all(known.was_lost(said, who) for who in said.who):
        return None
    if said.text.startswith("nobody was in the group"):  # it had stopped before the log begins
        return None if known.near(said, known.of("episode", said.group, "start")) else "nobody started it again"
    if not known.acts(said, None, "stop", "killed"):
        return "nobody stopped it"
    if known.of("incident", said.group, "deleted") and said.text.startswith("stopped"):
        return "it was deleted"
    gone = {line["client_id"] for line in known.acts(said, None, "stop", "killed")}
    if "lost" in said.text:
        gone |= {who for who in said.who if known.was_lost(said, who)}
    left = [who for who in said.who if who not in gone]
    return f"{left} did not stop" if left else None


def _stalled(said: Said, known: Known) -> str | None:
    until_ms = known.end_ms if said.until_ms is None else said.until_ms
    stuck = {f"offset {line['offset']:,} " for line in known.of("incident", said.group, POISON)}
    if stuck and "again and again" in said.text and not any(words in said.text for words in stuck):
        return f"it was stuck at {sorted(stuck)}"
    unread = [] if known.of("no_stall", said.group) else known.unread(said.group)
    for name in said.who:
        true = known.stalls(said.group, name) + unread
        if said.from_ms is None:
            if not true:
                return f"{name} never stood still"
            continue
        covered = max((min(until_ms, end + SLACK_MS) - max(said.from_ms, begin - SLACK_MS) for begin, end in true),
                      default=0)  # fmt: skip
        if covered < COVERED * (until_ms - said.from_ms):
            return f"{name} did not stand still then"
    return None


def _regressed(said: Said, known: Known) -> str | None:
    some = known.of("regression", said.group)
    near = [line for line in some if known.near(said, [line], 0)]
    causes = {line["cause"] for line in near}
    if known.of("incident", said.group, said.rule):
        return None  # a script deleted the group
    return None if said.rule in causes or None in causes else f"went back because of {sorted(map(str, causes))}"


def _incident(*whats: str) -> Judge:
    def judge(said: Said, known: Known) -> str | None:
        some = [line for what in whats for line in known.of("incident", said.group, what)]
        if said.rule == TOO_SLOW:  # a member reads as slowly after the end of its script
            some = [{**line, "until": known.end_ms} for line in some]
        if not known.near(said, some):
            return f"it had no incident of {', '.join(whats)}"
        right = {who for line in some for who in _whose(line)}
        wrong = [who for who in said.who if who not in right] if right else []
        return f"it was not {wrong}" if wrong else None

    return judge


def _whose(line: Mapping[str, Any]) -> list[str]:
    """The members by whom a group is too slow, or that have different topics; or the partitions that were skipped."""
    if line["what"] == SKIPPED:
        return [f"{line['topic']}-{one}" for one in line.get("partitions", ())]
    if line["what"] == TWO_TOPICS:
        return [who for members in line["topics"].values() for who in members]
    return line["members"] if line["what"] == TOO_SLOW else []


def _behind(said: Said, known: Known) -> str | None:
    if known.has_open_stall(said.group) is not False:
        return None
    # it names partitions
    return _incident("too_slow", *_ALSO_SLOW)(said._replace(rule=TOO_SLOW, who=()), known)


def _fine(said: Said, known: Known) -> str | None:
    right = _level(known, said.group)
    return None if FINE in right else f"it is not fine, but {' or '.join(sorted(right))}"


def _done(said: Said, known: Known) -> str | None:
    """Episodes that somebody wanted: the script must have done that."""
    if said.who and all(_did(said, who, known) for who in said.who):
        return None
    row = {"kind": said.rule, "group": said.group, "from_ms": said.from_ms or 0, "until_ms": said.until_ms or 0}
    if said.from_ms is not None and is_false(row, known.happenings, known.rebalances):
        return "there was no such episode"
    return None if known.acts(said, None, "starts", "stop", "killed", "frozen", "thawed") else "nobody did anything"


def _did(said: Said, who: str, known: Known) -> bool:
    """Whether the member truly did what an episode says of it, whatever the script meant by that."""
    gone = [line["at"] for line in known.acts(said, who, "stop", "killed")]
    if said.rule == "scale_out":
        return known.came(said, who)
    if said.rule == "scale_in":
        if "lost" in said.text and (known.was_lost(said, who) or _trouble(said, known) is None):
            return True
        return bool(known.acts(said, who, "stop")) and not known.acts(said, who, "killed")
    return any(line["at"] > min(gone) for line in known.acts(said, who, "starts")) if gone else False


def _absent(said: Said, known: Known) -> str | None:
    """A member left and came back: the script made it so, or the broker saw both."""
    # at the end of the broker's absence, nobody knows how a member ended
    is_unsure = " lost" in said.text and _trouble(said, known) is None
    if said.who and all((is_unsure or _left(said, who, known)) and known.came(said, who) for who in said.who):
        return None
    return _done(said, known)


def _left(said: Said, who: str, known: Known) -> bool:
    gone = [
        line for line in known.rebalances
        if line["group"] == said.group and (who in line.get("left", ()) or who in _trigger(line))
        and known.near(said, [{"from": line["acted"], "until": line["settled"]}])
    ]  # fmt: skip
    return bool(gone) or known.was_lost(said, who)


def _lost(line: Mapping[str, Any]) -> set[str]:
    """The members that the broker removed in a rebalance. Its line about the first one may come just before it."""
    first = {line["trigger"]["client_id"]} if line.get("cause") == "session_expired" and line["trigger"] else set()
    return first | {one["client_id"] for one in line["died"]}


def _trigger(line: Mapping[str, Any]) -> list[str]:
    """The member whose departure the broker gave as the cause of a rebalance."""
    return [line["trigger"]["client_id"]] if line["cause"] == "member_left" and line["trigger"] else []


def _unstable(said: Said, known: Known) -> str | None:
    return "it has few rebalances" if known.rebalances_of(said.group) < MANY else None


_ALSO_SLOW: Final = ("burst", "keeps_up", "behind")
"""Of a group with one of these incidents, nobody knows whether it is too slow."""
_CAUSES: Final = ("rewind", "reset", "second_application", "zombie", "deleted", "topic_recreated", "unknown")
TWO_TOPICS: Final = "two_topics"
SKIPPED: Final = "skip"
TOO_SLOW: Final = "too_slow"
POISON: Final = "poison"
BEHIND: Final = "behind"
SILENCE: Final = "silence"
JUDGES: Final[Mapping[str, Judge]] = {
    "crash_loop": _loops, "flapping": _flaps, "slow_poller": _slow, "member_died": _dead,
    "coordinator_or_network_trouble": _trouble, SILENCE: _trouble, "whole_stop": _stop, "stopped": _stop,
    "stalled": _stalled,
    TOO_SLOW: _incident("too_slow", *_ALSO_SLOW), TWO_TOPICS: _incident("two_topics", UNSEEN),
    BEHIND: _behind, SKIPPED: _incident("skip"), POISON: _incident("poison"), "fine": _fine, "unstable": _unstable,
    **dict.fromkeys(_CAUSES, _regressed),
    **dict.fromkeys(("rolling_restart", "overlapped_deploy", "scale_out", "scale_in"), _done), "restart": _absent,
}  # fmt: skip
"""How a claim of a rule is judged. Claims of other rules are not judged."""


class Judged(NamedTuple):
    """All sentences that were judged, and the false ones."""

    count: int
    false: list[str]


def judged(tables: Mapping[str, Sequence[Row]], truth: Truth) -> Judged:
    """Judge all sentences, and the advice."""
    known, count, false = Known(truth), 0, []
    for said in all_said(tables):
        judge = JUDGES.get(said.rule)
        if judge is None:
            continue
        count += 1
        why = judge(said, known)
        if why is not None:
            false.append(f"{said.group}: {said.text} ({why})")
    advice = worth(tables.get("advice", ()), truth)
    return Judged(count + len(advice.useful), false + [f"advice: {one}" for one in advice.useless])


def begun(tables: Mapping[str, Sequence[Row]], truth: Truth) -> dict[str, int]:
    """By group that got too slow: how far the start that is claimed is from the true one, in ms."""
    true = {line["group"]: line["from"] for line in truth if line["kind"] == "incident" and line["what"] == TOO_SLOW}
    claimed = {one.group: one.from_ms for one in all_said(tables) if one.rule == TOO_SLOW and one.from_ms is not None}
    return {group: abs(claimed[group] - from_ms) for group, from_ms in sorted(true.items()) if group in claimed}


INCIDENTS: Final[Mapping[str, str]] = {
    TWO_TOPICS: "two applications by topics", SKIPPED: "skips", TOO_SLOW: "too slow", POISON: "poison records",
}  # fmt: skip
"""The incidents that the truth has, and their titles."""


class Found(NamedTuple):
    """The claims about one kind of incident."""

    reported: dict[str, bool]
    """For each group with such an incident, whether a claim reports it."""
    false: list[str]
    """The groups with such a claim, but without an incident."""


def found(tables: Mapping[str, Sequence[Row]], truth: Truth, what: str) -> Found:
    """The claims about the incidents of one kind."""
    known = Known(truth)
    all_of_it = [line for line in known.lines.get("incident", ()) if line["what"] == what]
    having = {line["group"] for line in all_of_it if not line.get("meant")}  # somebody wanted to skip one record
    meant = {line["group"] for line in all_of_it if line.get("meant")}
    said = {one.group for one in all_said(tables) if one.rule == what}
    if what == POISON:  # the claim that a partition stalls names the offset of the record
        offsets = {(line["group"], f"offset {line['offset']:,}") for line in known.lines.get("incident", ())
                   if line["what"] == POISON}  # fmt: skip
        said |= {one.group for one in all_said(tables) for group, words in offsets
                 if one.group == group and words in one.text}  # fmt: skip
    doubtful = {TOO_SLOW: _ALSO_SLOW, TWO_TOPICS: (UNSEEN,)}.get(what, ())
    also = {line["group"] for line in known.lines.get("incident", ()) if line["what"] in doubtful}
    return Found({group: group in said for group in sorted(having)}, sorted(said - having - meant - also))
