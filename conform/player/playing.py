"""Plays a story: a generator of Actions for any driver."""

from __future__ import annotations

import collections
import itertools
import re
import uuid
from collections.abc import Generator

from muster.conform.player.asking_streams import VERBS
from muster.conform.player.showing import absorb, say
from muster.conform.player.stage import Actor, Stage, null_or, split_args
from muster.conform.player.story import Action, Advance, Await, Drop, Reply, Send, Step, Story


def due(outcome: list[str], actor: str | None = None) -> list[str]:
    """The actors with a reply in the outcome lines."""
    return [line.split()[0] for line in outcome if line.split()[1:2] == ["<-"] and actor in (None, line.split()[0])]


Play = Generator[Action, list[Reply] | None, str]
Part = Generator[Action, list[Reply] | None, list[str]]


def play(
    story: Story,
    suffix: str = "",
    topic_ids: dict[str, uuid.UUID] | None = None,
    recording: bool = False,
    *,
    prefix: str = "",
    to_the_end: bool = True,
) -> Play:
    """A generator of Actions; returns the story's text as it really went.

    `to_the_end` False: nothing is asked after the first step that differs. The rest of the text is the story's.
    """
    stage = Stage(story, suffix, topic_ids, prefix)
    # the same values in each run with this suffix
    numbers = itertools.count()
    stage.draw = lambda: uuid.uuid5(uuid.NAMESPACE_URL, f"{suffix}/{next(numbers)}")
    out = []
    for number, item in enumerate(story.items):
        if isinstance(item, str):
            out.append(item)
            continue
        out.append(item.line)
        try:
            lines = yield from step(stage, item, None if recording else item.outcome)
        except (KeyError, ValueError, AttributeError) as problem:
            out.append(f"    ! {type(problem).__name__}: {problem} ({story.path}:{item.lineno})")
            break
        out += lines
        if not to_the_end and lines != item.outcome:
            out += rest_of(story, number + 1)
            break
    return "\n".join(out) + "\n"


def rest_of(story: Story, start: int) -> list[str]:
    """The lines of a story behind one of its items."""
    lines: list[str] = []
    for item in story.items[start:]:
        lines += [item] if isinstance(item, str) else [item.line, *item.outcome]
    return lines


def step(stage: Stage, item: Step, outcome: list[str] | None) -> Part:
    """Play one step: its outcome lines as they really came."""
    expect = None if outcome is None else due(outcome)
    words = item.line.split(None, 2)
    if words[0] == "advance":
        return say(stage, (yield Advance(int(words[1]), expect)) or [])
    if words[0] == "await":
        return (yield from wait_for(stage, words[1], words[2], expect))
    names, _, command = item.line.partition(":")
    word, _, rest = command.strip().partition(" ")
    if word in ("drop", "restart"):
        for name in names.split():
            yield from drop(stage.actor(name), forget=word == "restart")
        return []
    return (yield from ask(stage, names.split(), word, rest, expect))


def wait_for(stage: Stage, name: str, span: str, expect: list[str] | None) -> Part:
    """Let time pass until the actor's reply, which is due in that span (`600..1100` ms after its request)."""
    low, high = (int(x) for x in span.split(".."))
    replies = (yield Await(name, low, high, expect)) or []
    first = next((r for r in replies if r.actor == name), None)
    lines = say(stage, replies)
    if first is None:
        lines.append(f"    {name} waiting (no reply within {high} ms)")
    elif not low <= first.took_ms <= high:
        lines.append(f"    ! {name}'s reply took {first.took_ms:.0f} ms, not {low}..{high}")
    return lines


def drop(actor: Actor, *, forget: bool) -> Part:
    """The actor's process dies; `forget`: it starts again without member id and generation."""
    yield Drop(actor.name)
    actor.session = 0
    if forget:
        actor.member, actor.generation, actor.epoch, actor.protocol = "", -1, 0, None
        actor.forget_producer()
    return []


def ask(stage: Stage, names: list[str], word: str, rest: str, expect: list[str] | None) -> Part:
    """Each actor sends the request, one after the other."""
    came: list[Reply] = []
    for name in names:
        actor = stage.actor(name)
        args, extra = split_args(rest) if word != "ask" else asked_version(rest)
        now = None
        if expect is not None:  # the last request of the step brings out whatever else is due
            now = [name] if name in expect else []
            if name == names[-1]:
                now = list((collections.Counter(expect) - collections.Counter(r.actor for r in came)).elements())
        if word == "enter" and needs_id(actor, args):
            first = yield from send(stage, actor, "join", args, extra, None if expect is None else [name])
            refused = next((r for r in first if r.actor == name and r.body["ErrorCode"] == 79), None)
            came += [r for r in first if r is not refused]
            if refused is None:
                continue
            absorb(stage, refused)
        request = "join" if word == "enter" else word
        came += yield from send(stage, actor, request, args, extra, now, others_follow=name != names[-1])
    answered = {r.actor for r in came}
    return say(stage, came) + [f"    {name} waiting" for name in names if name not in answered]


def asked_version(rest: str) -> tuple[dict[str, str], list[str]]:
    """`API v3 fields`: the version, and the API and the fields as they are."""
    found = re.fullmatch(r"(\w+)(?: v(\d+))?(?: (.*))?", rest)
    if found is None:
        raise ValueError(f"what is asked? {rest}")
    return {"v": found[2]} if found[2] else {}, [found[1], found[3] or ""]


def needs_id(actor: Actor, args: dict[str, str]) -> bool:
    """Whether the actor's first JoinGroup will be answered MEMBER_ID_REQUIRED (KIP-394)."""
    static = null_or(args.get("instance", actor.settings["instance"])) is not None
    return not actor.member and not static and int(args.get("v", 9)) > 3


def send(
    stage: Stage,
    actor: Actor,
    word: str,
    args: dict[str, str],
    extra: list[str],
    expect: list[str] | None,
    others_follow: bool = False,
) -> Generator[Action, list[Reply] | None, list[Reply]]:
    """Send one request; the replies that came by then."""
    api, version, body = VERBS[word](stage, actor, args, extra)
    stage.sent.append(body)
    if args.get("unheard") == "yes":
        stage.unheard.add(id(body))
    client_id, once = null_or(actor.settings["client"]), args.get("once") == "yes"
    number, is_named = int(args.get("v", version)), "v" in args
    replies = yield Send(actor.name, api, number, client_id, body, expect, once, others_follow, is_named)
    return list(replies or [])
