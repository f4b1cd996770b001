"""Questions about the states of share partitions, and their answers, as JSON for another node.

A node asks the node that coordinates a share partition. That node may have lost its leadership meanwhile, and then
answers NOT_COORDINATOR. A lost answer counts as COORDINATOR_NOT_AVAILABLE. In both cases the persister asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

from muster.coordinator.runtime.share_coordinator.error_responses import refuse
from muster.coordinator.runtime.share_coordinator.share_states import ShareStates
from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.persister import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    StateKey,
    StateRequest,
    StateResponse,
    WriteState,
)
from muster.coordinator.topics.names import SHARE_STATE_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message

_KINDS: Final[tuple[type[StateRequest], ...]] = (InitializeState, ReadState, WriteState, DeleteState, ReadSummary)
"""The place of a type stands for it in a message."""


def as_json(request: StateRequest) -> list[Any]:
    """A question, as `serve` reads it."""
    key = request.key
    place = [key.group_id, key.topic_id.hex(), key.partition]
    return [_KINDS.index(type(request)), place, *_values(request)[1:]]


def read_request(what: Sequence[Any]) -> StateRequest:
    """The question that `as_json` has written."""
    kind, (group_id, topic_id, partition), *values = what
    key = StateKey(group_id, bytes.fromhex(topic_id), partition)
    if _KINDS[kind] is WriteState:
        values[-1] = [Row(*row) for row in values[-1]]
    made: type[Any] = _KINDS[kind]
    request: StateRequest = made(key, *values)
    return request


def read_answer(request: StateRequest, answer: Sequence[Any]) -> StateResponse:
    """The answer to `request` that `serve` has given."""
    values = [*answer]
    if isinstance(request, ReadState):
        values[-1] = [Row(*row) for row in values[-1]]
    return type(refuse(request, 0))(*values)


def lost(request: StateRequest) -> StateResponse:
    """The answer when the other node does not answer."""
    return refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def serve(
    states: ShareStates,
    leads: Callable[[str, int], int | None],
    what: Sequence[Any],
    answer: Callable[[object], object],
) -> None:
    """Answer the question of another node. `leads`: see `StatePeers`."""
    request = read_request(what)

    def respond(response: Message) -> None:
        answer(_values(response))

    if not states.routing.ready or leads(SHARE_STATE_TOPIC, states.routing.partition(str(request.key))) is not None:
        respond(refuse(request, ErrorCode.NOT_COORDINATOR))
    else:
        states.submit(request, respond)


def _values(message: Any) -> list[Any]:
    return [getattr(message, field.name) for field in fields(message)]
