"""The verbs of the control about the server and its nodes. Knows no socket."""

from __future__ import annotations

from muster.coordinator.config.listeners import show
from muster.testcontrol.http import shown
from muster.testcontrol.http.failures import Failure
from muster.testcontrol.http.verb import Answer, Verb, VerbCall, contract
from muster.testcontrol.server_control import ServerControl
from muster.version import VERSION


def describe(_: ServerControl, __: VerbCall) -> Answer:
    """Show the contract."""
    return contract()


def server(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """Show the `Server`."""
    running = rehearsal.server
    firsts = [node.bound[0] for node in running.nodes if node.bound]
    return {
        "version": VERSION,
        "cluster_id": running.node.cluster.cluster_id,
        "bootstrap_servers": ",".join(show(one.host or "127.0.0.1", one.port) for one in firsts),
        "nodes": rehearsal.nodes.ids(),
        "in_memory": running.config.data_dir is None,
        "virtual_time": rehearsal.time.is_movable,
    }


def list_nodes(rehearsal: ServerControl, _: VerbCall) -> Answer:
    """List the brokers."""
    nodes = rehearsal.nodes
    return {"nodes": [shown.node(nodes.describe(one)) for one in nodes.ids()]}


def on_node(verb: str) -> Verb:
    """The verb that acts on a broker."""

    async def do(rehearsal: ServerControl, call: VerbCall) -> Answer:
        text = call.path["node"]
        if not text.isdigit() or int(text) not in rehearsal.nodes.ids():
            raise Failure("not-found", f"there is no node {text}")
        done = getattr(rehearsal.nodes, verb)(int(text))
        if done is not None:
            await done
        return list_nodes(rehearsal, call)

    return do
