"""Three processes of `muster serve --cluster` over one database, as one server under test. This module may not import
the product: here a server is its command line.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.servers import MusterServer, ServerError, free_port_pair
from tests.support.unseen_faults import watch_log

NODES = 3


class ClusterNode(MusterServer):
    """One of the three processes. `begin` does not wait until the node is ready."""

    def begin(self) -> None:
        """Start the process."""
        watch_log(self.log_path)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, cwd=self.workdir)

    def until_ready(self) -> None:
        """Wait until the node serves clients. Raises `ServerError`."""
        assert self._process is not None
        assert self.wait_until_ready(self._process) == self.bootstrap

    def signal(self, number: signal.Signals) -> None:
        """Send the signal to the process."""
        assert self._process is not None
        self._process.send_signal(number)


class ClusterNodes:
    """The three processes. `database` is the URL of an empty database for the cluster. `racks` has the rack of each
    node, or is empty.
    """

    name = "muster"

    def __init__(
        self,
        workdir: Path,
        properties: Mapping[str, str],
        database: str,
        *,
        arguments: Sequence[str] = (),
        racks: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._nodes = []
        for number in range(NODES):
            node = ClusterNode(
                workdir / f"node-{number + 1}",
                {**properties, "broker.rack": racks[number]} if racks else properties,
                arguments=["--cluster", database, *arguments],
            )
            node.bootstrap = f"127.0.0.1:{free_port_pair()}"
            self._nodes.append(node)

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes."""
        return ",".join(node.bootstrap for node in self._nodes)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each node."""
        return [node.address for node in self._nodes]

    @property
    def running(self) -> bool:
        """Whether any node runs."""
        return any(node.running for node in self._nodes)

    @property
    def start_timeout_s(self) -> float:
        """The limit for the start of each node."""
        return self._nodes[0].start_timeout_s

    @start_timeout_s.setter
    def start_timeout_s(self, seconds: float) -> None:
        for node in self._nodes:
            node.start_timeout_s = seconds

    def start(self) -> None:
        """Initialize the cluster, and start its nodes. Raises `ServerError`, `CalledProcessError`."""
        muster = Path(sys.executable).parent / "muster"
        subprocess.run([muster, "cluster", "init", self._database], check=True, capture_output=True)
        try:
            for node in self._nodes:  # one after the other, so that the ids are in the order of the addresses
                node.begin()
                node.until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop all nodes as an operator would. Raises `ServerError` when a node does not end as it should."""
        failed = []
        for node in self._nodes:
            try:
                node.stop()
            except ServerError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def stop_node(self, node: int) -> None:
        """Stop one node with SIGTERM. Raises `ServerError`."""
        self._nodes[node - 1].stop()

    def kill_node(self, node: int) -> None:
        """Kill one node with SIGKILL."""
        self._nodes[node - 1].kill()

    def start_node(self, node: int) -> None:
        """Start a node again on its old ports. Raises `ServerError`."""
        self._nodes[node - 1].begin()
        self._nodes[node - 1].until_ready()

    def kill(self) -> None:
        """Kill all nodes with SIGKILL."""
        for node in self._nodes:
            with suppress(AssertionError):
                node.kill()
