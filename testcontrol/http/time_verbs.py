"""The verbs of the control about time. Knows no socket."""

from __future__ import annotations

from muster.testcontrol.http.failures import Failure
from muster.testcontrol.http.verb import Answer, VerbCall
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.virtual_time import LIMIT_MS, SETTLE_MS, TIMEOUT_MS


def time(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """Show the time."""
    return rehearsal.time.now()._asdict()


def freeze(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """Freeze time."""
    return rehearsal.time.freeze()._asdict()


def thaw(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """Let time run."""
    return rehearsal.time.thaw()._asdict()


async def advance(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Advance time at once."""
    ms = call.body.need("ms", int)
    call.body.end()
    return (await rehearsal.time.advance(ms))._asdict()


async def run_until(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Advance time until a condition holds."""
    body = call.body
    condition, group_id = body.need("condition", str), body.take("group", str)
    members, name = body.number("members"), body.take("partitions", str)
    pace = {
        "limit_ms": body.number("limit_ms", LIMIT_MS),
        "settle_ms": body.number("settle_ms", SETTLE_MS),
        "timeout_ms": body.number("timeout_ms", TIMEOUT_MS),
    }
    body.end()
    if (condition == "idle") != (group_id is None) or condition not in ("idle", "stable"):
        raise Failure("bad-request", "condition is to be idle, or stable with a group")
    return (await rehearsal.run_until(group_id, members, name, **pace))._asdict()
