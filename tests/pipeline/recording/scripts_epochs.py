"""The scripts of a second kind of recording. KIP-848 groups have the same events as classic ones (`scripts`), and
groups change their protocol. There are also events of real clusters: topics that grow, patterns, and commits in
transactions by producers that are no members.
"""

from __future__ import annotations

import time
from typing import Final

from tests.pipeline.recording import scripts
from tests.pipeline.recording.cast import Group, now_ms, writing
from tests.pipeline.recording.scripts import Part, formed


def static_deaths(group: Group) -> None:
    """Static members are killed. No other process may take their place before their session is over."""
    formed(group, 3)
    for one in (1, 2):
        group.rest(8, 15)
        begun = now_ms()
        group.kill(one)
        time.sleep(group.options["session_ms"] / 1000 + 3)
        group.settle()
        group.episode("deaths", begun, (one,))
        group.rest(5, 8)
        begun = now_ms()
        group.start(one)
        group.settle()
        group.episode("scale_out", begun, (one,))
    group.rest(10, 20)


def static_away(group: Group) -> None:
    """Static members stop: the first is back in time, the second stays away for longer than its session."""
    formed(group, 3)
    for one, is_late in ((1, False), (2, True), (3, False)):
        group.rest(8, 15)
        begun = now_ms()
        group.stop(one)
        if is_late:
            time.sleep(group.options["session_ms"] / 1000 + 3)
            group.settle()
            group.episode("deaths", begun, (one,))
        group.rest(1, 3)
        group.start(one)
        group.settle()
    group.not_stalled("its members were away for a moment")
    group.rest(10, 20)


def growing(group: Group) -> None:
    """Give its topic more partitions, twice."""
    formed(group, 2)
    for _ in range(2):
        group.rest(15, 25)
        group.grow(group.partitions + 2)
        group.rest(group.options["metadata_ms"] / 1000 + 2, group.options["metadata_ms"] / 1000 + 6)
        group.settle()
    group.rest(10, 20)


def patterned(group: Group) -> None:
    """The group subscribes to a pattern, and new topics match."""
    pattern = f"^{group.topic}.*"
    group.start(1, 2, topics=[pattern])
    group.settle()
    for number in (2, 3):
        group.rest(20, 30)
        group.new_topic(f"{group.topic}-{number}", 3)
        group.rest(15, 20)
    group.start(3, topics=[pattern])
    group.settle()
    group.rest(10, 20)


def upgraded(group: Group) -> None:
    """A rolling restart to the consumer protocol, and later one back."""
    formed(group, 3)
    for protocol in ("consumer", "classic"):
        group.rest(10, 15)
        begun, members = now_ms(), group.running
        for one in members:
            group.stop(one)
            group.rest(0.2, 2)
            group.start(one, protocol=protocol)
            group.rest(3, 6)
            group.settle()
        group.episode("rolling_restart", begun, members, static=False)
        group.rest(15, 25)


def mixed(group: Group) -> None:
    """Members of both protocols: of each protocol one joins, one dies and one leaves."""
    group.start(1, 2)
    group.settle()
    group.rest(8, 12)
    for number, protocol in ((3, "consumer"), (4, "classic"), (5, "consumer")):
        begun = now_ms()
        group.start(number, protocol=protocol)
        group.settle()
        group.episode("scale_out", begun, (number,))
        group.rest(25, 30)
    for number in (1, 3):
        begun = now_ms()
        group.kill(number)
        time.sleep(group.options["session_ms"] / 1000 + 4)
        group.settle()
        group.episode("deaths", begun, (number,))
        group.rest(25, 30)
    begun = now_ms()
    group.stop(4)
    group.settle()
    group.episode("scale_in", begun, (4,))
    group.rest(10, 15)


def written_to(group: Group) -> None:
    """A producer that is no member commits in transactions under its id: from far behind, and sometimes it aborts."""
    formed(group, 2)
    group.rest(15, 25)
    writer = writing(group.stage.bootstrap, f"{group.name}-writer")
    at = dict.fromkeys(range(group.partitions), 3)
    group.write(writer, dict.fromkeys(at, 0), aborts=True)  # nobody sees it
    group.rest(10, 15)
    begun = now_ms()
    for turn in range(8):
        group.write(writer, at)
        at = {one: place + group.random.randrange(2, 8) for one, place in at.items()}
        if turn % 3 == 2:
            group.write(writer, dict.fromkeys(at, 1), aborts=True)
        group.rest(2, 5)
    group.drops("second_application", begun, by=f"{group.name}-writer")
    group.not_stalled("two applications commit")
    group.rest(15, 20)


def expired(group: Group) -> None:
    """A tool deletes the committed offsets while the group is empty; it begins again: no commit goes back."""
    formed(group, 2)
    group.rest(20, 25)
    begun = now_ms()
    group.stop(1, 2)
    group.episode("whole_stop", begun, (1, 2))
    group.rest(3, 6)
    group.forget()
    group.rest(2, 4)
    begun = now_ms()
    group.start(1, 2)
    group.settle()
    group.episode("start", begun, (1, 2))
    group.not_stalled("its offsets were deleted")
    group.rest(15, 20)


_EPOCHS: Final = {"protocol": "consumer"}
_HAND: Final = {**_EPOCHS, "commits": "hand"}
_SHORT: Final = {**_EPOCHS, "session_ms": (6_000, 10_000)}
_QUICK: Final = {"metadata_ms": 4_000, "client": ("java", "confluent"), "session_ms": 10_000}

EPOCH_CAST: Final = (
    Part("rolling", scripts.rolling, _EPOCHS),
    Part("static", scripts.rolling, {**_EPOCHS, "static": True, "session_ms": 45_000}),
    Part("scaling", scripts.scaling, _EPOCHS),
    Part("crashes", scripts.crash_loop, _SHORT),
    Part("flapping", scripts.flapping, _EPOCHS),
    Part("overlap", scripts.overlap, _EPOCHS),
    Part("slow", scripts.slow, {**_EPOCHS, "max_poll_ms": 8_000, "session_ms": 6_000}),
    Part("stops", scripts.whole_stop, _EPOCHS),
    Part("deaths", scripts.deaths, _SHORT),
    Part("late-deaths", scripts.deaths, {**_EPOCHS, "session_ms": 45_000}),
    Part("rewinds", scripts.rewinder, _HAND),
    Part("own-places", scripts.rewinder_at_assignment, {**_HAND, "rewinds": 15}),
    Part("stranger", scripts.application_without_members, {**_HAND, "client": "confluent"}),
    Part("resets", scripts.reset, _EPOCHS),
    Part("poison", scripts.stuck, _HAND),
    Part("idle", scripts.idle, _EPOCHS),
    Part("given-up", scripts.given_up, _EPOCHS),
    Part("frozen", scripts.frozen, _SHORT),
    Part("static-deaths", static_deaths, {**_EPOCHS, "static": True, "session_ms": 15_000}),
    Part("static-away", static_away, {**_EPOCHS, "static": True, "session_ms": 15_000}),
    Part("grows", growing, {**_EPOCHS, "metadata_ms": 4_000}),
    Part("grows-classic", growing, {"metadata_ms": 4_000, "session_ms": 10_000}),
    Part("pattern", patterned, {**_EPOCHS, "metadata_ms": 4_000}),
    Part("upgraded", upgraded, _QUICK),
    Part("mixed", mixed, _QUICK),
    Part("written", written_to, {**_EPOCHS, "commits": "hand", "client": "confluent"}),
    Part("written-classic", written_to, {"commits": "hand", "session_ms": 10_000}),
    Part("expired", expired, _EPOCHS),
    Part("expired-classic", expired, {"session_ms": 10_000}),
)  # fmt: skip
