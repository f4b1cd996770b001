"""What testcontainers-python asks of a Docker client, answered without an engine.

`Engine` stands for `testcontainers.core.docker_client.DockerClient`. It keeps its requests in `asked`. Its containers
only keep what they are given (`Kept`), or run in namespaces (`Running`).
"""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from testcontainers.core import container as of_testcontainers
from testcontainers.core.config import ConnectionMode, testcontainers_config

from tests.image.container import Container


class Kept:
    """A container that runs nothing: it has a given log, once a file of that name is there."""

    id = short_id = "c0ffee0fcafe"
    status = "created"
    mapped_port = 49153

    def __init__(self, log_with: str = "", log: str = "") -> None:
        self.files: dict[str, bytes] = {}
        self._log_with, self._log = log_with, log

    def port_of(self, port: int) -> int:
        return self.mapped_port

    def start(self) -> None:
        self.status = "running"

    def reload(self) -> None:
        pass

    def put_archive(self, path: str, data: Any) -> bool:
        archive = io.BytesIO(data) if isinstance(data, bytes) else data
        with tarfile.TarFile(fileobj=archive) as tar:
            for entry in tar.getmembers():
                content = tar.extractfile(entry)
                assert content is not None
                self._lay(f"{path.rstrip('/')}/{entry.name.lstrip('/')}", content.read(), entry.mode)
        return True

    def _lay(self, path: str, content: bytes, mode: int) -> None:
        self.files[path] = content

    def logs(self, *, stdout: bool = True, stderr: bool = True) -> bytes:
        return self._log.encode() if stdout and self._log_with in self.files else b""

    def remove(self, *, force: bool, v: bool) -> None:
        self.status = "removed"


class Running(Kept):
    """A container that runs the image."""

    def __init__(self, asked: dict[str, Any]) -> None:
        super().__init__()
        command = asked["command"]
        port, *further = (int(one.partition("/")[0]) for one in asked["ports"])
        self.inside = Container(
            port=port,
            further_ports=further,
            environment={name: str(value) for name, value in asked["environment"].items()},
            command=shlex.split(command) if isinstance(command, str) else command,
        )

    def port_of(self, port: int) -> int:
        return self.inside.mapped_ports[port]

    def start(self) -> None:
        super().start()
        self.inside.__enter__()

    def _lay(self, path: str, content: bytes, mode: int) -> None:
        self.inside.copy(path, content, mode)

    def logs(self, *, stdout: bool = True, stderr: bool = True) -> bytes:
        return "\n".join(self.inside.log_so_far()).encode() if stdout else b""

    def remove(self, *, force: bool, v: bool) -> None:
        super().remove(force=force, v=v)
        self.inside.__exit__(None, None, None)


class Engine:
    """A client of an engine that runs containers in namespaces. With `kept`, it answers that `kept` runs."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.kept = kept
        self.asked: dict[str, Any] = {}
        self.client = self
        self.closed = False

    def create(self, image: str, **asked: Any) -> Kept:
        self.asked = {"image": image, **asked}
        self.container = self.kept or Running(asked)
        return self.container

    def start(self, container: Kept) -> None:
        container.start()

    def get_connection_mode(self) -> ConnectionMode:
        return ConnectionMode.docker_host

    def host(self) -> str:
        return "localhost"

    def port(self, container_id: str, port: int) -> str:
        return str(self.container.port_of(port))

    def close(self) -> None:
        self.closed = True


@contextmanager
def engine(kept: Kept | None = None) -> Iterator[Engine]:
    """Let testcontainers-python work with this engine; nothing else asks for one."""
    with pytest.MonkeyPatch.context() as patch:
        one = Engine(kept)
        patch.setattr(of_testcontainers, "DockerClient", lambda **_: one)
        patch.setattr(testcontainers_config, "ryuk_disabled", True)
        patch.setattr(testcontainers_config, "hub_image_name_prefix", "")
        yield one
