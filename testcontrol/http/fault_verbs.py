"""The verbs of the control about rules and scenarios. Knows no socket."""

from __future__ import annotations

from muster.testcontrol.faults.rule import Rule
from muster.testcontrol.http.body import query_number
from muster.testcontrol.http.verb import DONE, Answer, VerbCall
from muster.testcontrol.server_control import ServerControl


def list_faults(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """List the rules."""
    return {"rules": [rule.to_json() for rule in rehearsal.faults.rules]}


def add_fault(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Put a rule in force."""
    return rehearsal.faults.put(Rule.of(call.body.given)).to_json()


def clear_faults(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """Remove all rules."""
    rehearsal.scenarios.end_all()
    rehearsal.faults.clear()
    return DONE


def fault(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Show one rule."""
    return rehearsal.faults.find(call.path["rule"]).to_json()


def remove_fault(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Remove a rule."""
    rehearsal.faults.remove(call.path["rule"])
    return DONE


def release_fault(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Release what a rule holds."""
    return rehearsal.faults.release(call.path["rule"]).to_json()


def fault_log(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """List the hits."""
    log = rehearsal.faults.log
    return {"hits": log.after(query_number(call.query, "after", 0)), "forgotten": log.forgotten}


def scenarios(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """List the kinds of scenarios, and the running ones."""
    return {"kinds": rehearsal.scenarios.kinds(), "running": [one.to_json() for one in rehearsal.scenarios.running]}


async def start_scenario(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Start a scenario."""
    found: Answer = (await rehearsal.scenarios.start(call.path["scenario"], call.body.given)).to_json()
    return found


def scenario(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """Show a running scenario."""
    return rehearsal.scenarios.find(call.path["scenario"]).to_json()


def end_scenario(rehearsal: ServerControl, call: VerbCall) -> Answer:
    """End a running scenario."""
    rehearsal.scenarios.end(call.path["scenario"])
    return DONE
