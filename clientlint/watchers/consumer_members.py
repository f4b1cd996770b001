"""Members of KIP-848: their epochs, what they do after errors, and how often they send heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.clientlint.calls import Call, Certainty, Client, Known, known
from muster.clientlint.watcher import Broken, Kept, Watcher, broken, broken_after, named, seconds
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode

_MUST_REJOIN: Final = frozenset((ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID))
"""After these errors, a member gives up its partitions and joins with epoch 0."""
_FATAL: Final = frozenset((ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID))
SILENT_MS: Final = 30_000
"""A client that stays connected, and silent for this time after a fatal error, may have failed without a word."""
EARLY_BEATS: Final = 10
EARLY_PART: Final = 4
"""`EARLY_BEATS` heartbeats in a row, each before this part of the interval, are too frequent: a quarter."""
LATE_TIMES: Final = 3
"""A heartbeat after this many intervals is late."""


class _Member:
    """A member as its client knows it."""

    __slots__ = ("client", "early", "epoch", "epoch_known", "fatal", "interval_ms", "left", "must_rejoin", "sign_ms")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.epoch = 0
        self.epoch_known: Known | None = None
        self.fatal: Known | None = None
        self.left: Known | None = None
        self.must_rejoin: Known | None = None
        self.interval_ms = self.sign_ms = self.early = 0


class ConsumerMembers(Watcher):
    """See the module."""

    apis = (ApiKey.CONSUMER_GROUP_HEARTBEAT,)

    def __init__(self) -> None:
        self._members: Kept[tuple[str, str], _Member] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        request = call.request
        member = self._members.find((request.group_id, request.member_id)) if request.member_id else None
        if member is None:
            return
        member.fatal = None
        if request.member_epoch <= 0:
            return
        what = f"heartbeat with epoch {request.member_epoch}"
        if member.left is not None:
            yield from broken_after("request-after-leave", call, what, member.left, "the member had left")
        elif member.must_rejoin is not None:
            why = f"{named(member.must_rejoin.error)}; a member has to join again, with epoch 0"
            yield from broken_after("no-rejoin-after-fence", call, what, member.must_rejoin, why)
        elif member.epoch_known is not None and request.member_epoch != member.epoch:
            why = f"the answer with epoch {member.epoch}"
            yield from broken_after("epoch-not-honoured", call, what, member.epoch_known, why)
        else:
            yield from self._pace(call, member)

    def _pace(self, call: Call, member: _Member) -> Iterator[Broken]:
        pause_ms, interval_ms = call.asked_ms - member.sign_ms, member.interval_ms
        is_bare = call.request.topic_partitions is None and call.request.subscribed_topic_names is None
        if is_bare and pause_ms * EARLY_PART < interval_ms:
            member.early += 1
            if member.early == EARLY_BEATS:
                words = f"{EARLY_BEATS} heartbeats without news in a row, the last {seconds(pause_ms)} after an answer"
                words += f" that asked for an interval of {seconds(interval_ms)}"
                yield broken("heartbeat-interval", call, words, Certainty.PERHAPS)
            return
        member.early = 0
        if pause_ms > interval_ms * LATE_TIMES > 0:
            words = f"a heartbeat {seconds(pause_ms)} after an answer that asked for {seconds(interval_ms)}"
            yield broken("heartbeat-interval", call, words, Certainty.PERHAPS)

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        request, answer = call.request, call.answer
        if answer is None:
            return
        error = answer.error_code
        member_id = answer.member_id or request.member_id
        if not error and request.member_epoch == 0:
            self._members.put((request.group_id, member_id), _Member(call.client))
        member = self._members.find((request.group_id, member_id))
        if member is None:
            if error in _FATAL and member_id:
                member = self._members.put((request.group_id, member_id), _Member(call.client))
                member.fatal = known(call, error)
            return
        yield from self._lost_session(call, member, error)
        member.sign_ms = call.answered_ms
        if not error:
            self._succeeded(call, member, answer)
        elif error in _MUST_REJOIN:
            member.must_rejoin = known(call, error)
        elif error in _FATAL:
            member.fatal = known(call, error)

    def _lost_session(self, call: Call, member: _Member, error: int) -> Iterator[Broken]:
        pause_ms = call.asked_ms - member.sign_ms
        is_late = pause_ms > member.interval_ms * LATE_TIMES > 0
        if error in _MUST_REJOIN and is_late and not (member.left or member.must_rejoin):
            words = f"no heartbeat for {seconds(pause_ms)}, with an interval of {seconds(member.interval_ms)}; "
            words += "the group had removed the member"
            yield broken("session-not-held", call, words, Certainty.SURE)

    def _succeeded(self, call: Call, member: _Member, answer: Any) -> None:
        member.must_rejoin = None
        if call.request.member_epoch < 0:
            member.left = known(call)
            return
        member.left = None
        if answer.member_epoch != member.epoch:
            member.epoch, member.epoch_known = answer.member_epoch, known(call)
        if answer.heartbeat_interval_ms:
            member.interval_ms = answer.heartbeat_interval_ms

    def passed(self, now_ms: int) -> Iterator[Broken]:
        """See `Watcher`."""
        for member in self._members.values():
            fatal = member.fatal
            if fatal is None or now_ms - fatal.at_ms < SILENT_MS:
                continue
            member.fatal = None
            if fatal.connection.closed_ms is None:
                words = f"no further heartbeat for {seconds(now_ms - fatal.at_ms)} after {named(fatal.error)}, "
                words += "while the client stayed connected"
                rule, api = "silent-after-fatal-error", "ConsumerGroupHeartbeat"
                yield Broken(rule, member.client, api, now_ms, words, Certainty.PERHAPS)
