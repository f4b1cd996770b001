"""A Muster container for tests that use testcontainers-python (the extra `testcontainers`).

`MusterContainer` has what testcontainers' own `KafkaContainer` has, so one line of a test changes::

    from muster.testing.containers import MusterContainer as KafkaContainer

    with KafkaContainer() as kafka:
        consumer = AIOKafkaConsumer(bootstrap_servers=kafka.get_bootstrap_server())
"""

from __future__ import annotations

import json
import secrets
import shlex
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Self

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

STARTED = r"Kafka Server started"
"""What the image logs when clients can connect."""
POLL_S = 0.05
"""How often the container's log is read while it starts."""
_BROKER_PORT = 9092
_CONTROL_PORT = 9095
_TOKEN_FILE = "/tmp/muster-control-token"


class MusterContainer(DockerContainer):
    """A server for clients on the host (`get_bootstrap_server`) and in the container's network (port 9092).

    The log is in memory. A new group does not wait for more members (`group.initial.rebalance.delay.ms` is 0), as in
    testcontainers' `KafkaContainer`. `with_property` sets this property or any other of Kafka's.
    """

    TC_START_SCRIPT = "/tc-start.sh"
    """The start script is copied into the container when the port on the host is known. A file beside the script marks
    the copy as complete.
    """

    def __init__(
        self,
        image: str = "muster",
        port: int = 9093,
        wait_strategy_check_string: str = STARTED,
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        *,
        in_memory: bool = True,
        **kwargs: Any,
    ) -> None:
        """`port`: the port, in the container, of the listener for the host. `listener_name` and `security_protocol` are
        of the same listener.

        `wait_strategy_check_string` is a regular expression. `in_memory` False: the log is on the container's volume,
        and outlives a restart. `kwargs` are those of `DockerContainer`.
        """
        super().__init__(image, **kwargs)
        self.port = port
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.wait_for = wait_strategy_check_string
        self.kraft_enabled = True
        self.boot_command = ""
        self.cluster_id = ""
        self.control_token = ""
        self._options = ["--in-memory"] if in_memory else []
        self.with_exposed_ports(port)
        self.listeners = f"{listener_name}://0.0.0.0:{port},BROKER://0.0.0.0:{_BROKER_PORT}"
        self.security_protocol_map = f"BROKER:PLAINTEXT,{listener_name}:{security_protocol}"
        self.with_env("KAFKA_LISTENERS", self.listeners)
        self.with_env("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", self.security_protocol_map)
        self.with_env("KAFKA_INTER_BROKER_LISTENER_NAME", "BROKER")
        self.with_property("group.initial.rebalance.delay.ms", 0)

    def with_kraft(self) -> Self:
        """Does nothing: Muster never needs ZooKeeper. `KafkaContainer` has this method, too."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        """Set the cluster id. By default the server draws a random one."""
        self.cluster_id = cluster_id
        return self.with_env("CLUSTER_ID", cluster_id)

    def with_topic(self, name: str, partitions: int = 1) -> Self:
        """Create this topic when the server starts."""
        self._options += ["--topic", f"{name}:{partitions}"]
        return self

    def with_property(self, name: str, value: object) -> Self:
        """Set a property of Kafka or Muster by its name, such as `offsets.retention.minutes`."""
        variable = "".join({"-": "___", "_": "__", ".": "_"}.get(sign, sign) for sign in name)
        return self.with_env("KAFKA_" + variable.upper(), str(value))

    def with_properties(self, properties: Mapping[str, object]) -> Self:
        """Set several properties."""
        for name, value in properties.items():
            self.with_property(name, value)
        return self

    def with_control(self, *, virtual_time: bool = False) -> Self:
        """Open the test control over HTTP, for `control`. `virtual_time`: time is frozen until the test control moves
        it.
        """
        self.control_token = secrets.token_urlsafe()
        self._options += ["--control", f"0.0.0.0:{_CONTROL_PORT}", "--control-token", _TOKEN_FILE]
        if virtual_time:
            self._options.append("--virtual-time")
        return self.with_exposed_ports(_CONTROL_PORT)

    @property
    def control_url(self) -> str:
        """The URL of the test control, for clients that send `control_token` as a bearer token."""
        return f"http://{self.get_container_host_ip()}:{self.get_exposed_port(_CONTROL_PORT)}/v1"

    def control(self, method: str, path: str, body: object = None) -> Any:
        """Call a verb of the test control, such as `control("POST", "/groups/shop/rebalance")`, and return its answer.

        Raises RuntimeError with the server's text when the server refuses, or a wait fails.
        """
        headers = {"Authorization": f"Bearer {self.control_token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.control_url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise RuntimeError(json.load(error)["error"]["message"]) from None

    def get_bootstrap_server(self) -> str:
        """HOST:PORT for clients on the host."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(self.port)}"

    def start(self, timeout: float = 30) -> Self:
        """Start the container, and wait up to `timeout` seconds until clients can connect. Raises TimeoutError."""
        script = self.TC_START_SCRIPT
        # Muster's image has bash; other images may have another shell
        self.with_command(["bash", "-c", f"until [ -f {script}.whole ]; do sleep 0.02; done; exec bash {script}"])
        super().start()
        self.tc_start()
        waits = LogMessageWaitStrategy(self.wait_for).with_startup_timeout(int(timeout)).with_poll_interval(POLL_S)
        waits.wait_until_ready(self)
        return self

    def tc_start(self) -> None:
        """Copy the start script into the running container, now that its port on the host is known."""
        advertised = f"{self.listener_name}://{self.get_bootstrap_server()}"
        lines = (
            "#!/bin/bash",
            self.boot_command,
            f"export KAFKA_ADVERTISED_LISTENERS={advertised},BROKER://$(hostname -i | cut -d' ' -f1):{_BROKER_PORT}",
            f"exec /etc/kafka/docker/run {shlex.join(self._options)}",
        )
        if self.control_token:
            self.create_file(self.control_token.encode(), _TOKEN_FILE)
        self.create_file("\n".join(lines).encode() + b"\n", self.TC_START_SCRIPT)
        self.create_file(b"", f"{self.TC_START_SCRIPT}.whole")

    def create_file(self, content: bytes, path: str) -> None:
        """Put a file into the running container."""
        with BytesIO() as archive:
            with tarfile.TarFile(fileobj=archive, mode="w") as tar:
                entry = tarfile.TarInfo(name=path.lstrip("/"))
                entry.size, entry.mtime = len(content), int(time.time())
                tar.addfile(entry, BytesIO(content))
            self.get_wrapped_container().put_archive("/", archive.getvalue())
