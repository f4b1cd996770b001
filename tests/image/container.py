"""A container of the image on a machine without an engine: namespaces of Linux, and the file tree of the Dockerfile.

It offers what the Kafka modules of Testcontainers ask of an engine: environment, entry point and command, files copied
in, a mapped port, the log, a command run inside. See `inside`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType

from tests.image import dockerfile

INSIDE = Path(__file__).with_name("inside.py")
NAMESPACES = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child"]
TIMEOUT_S = 60.0


@cache
def missing() -> str:
    """Why no container can run here; empty when one can run."""
    if not sys.platform.startswith("linux") or shutil.which("unshare") is None or not Path("/bin/bash").exists():
        return "needs Linux with unshare and bash"
    if os.geteuid() != 0:
        return "needs root, for namespaces with another user in them"
    with tempfile.TemporaryDirectory() as place:
        script = (
            f"mount -t tmpfs tmpfs {place} && mkdir {place}/u {place}/w {place}/m && mount -t overlay overlay "
            f"-o lowerdir=/usr,upperdir={place}/u,workdir={place}/w {place}/m && mount -t proc proc {place}/w"
        )
        tried = subprocess.run([*NAMESPACES, "sh", "-c", script], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "needs the right to make namespaces and to mount"


class Container:
    """One container, running from `start` to the end of the block."""

    hostname = "c0ffee0fcafe"

    def __init__(
        self,
        *,
        port: int,
        environment: Mapping[str, str] | None = None,
        entrypoint: Sequence[str] | None = None,
        command: Sequence[str] = (),
        aliases: str = "",
        further_ports: Sequence[int] = (),
    ) -> None:
        """`port` is the one that is mapped, beside `further_ports`; `entrypoint` and `command` in place of the image's;
        `aliases` are further names of the container in its network.
        """
        image = dockerfile.read()
        self.health = image.health
        self._place = tempfile.TemporaryDirectory(prefix="muster-image-")
        self._mapped = {inside: socket.create_server(("127.0.0.1", 0)) for inside in (port, *further_ports)}
        self.mapped_ports: dict[int, int] = {inside: one.getsockname()[1] for inside, one in self._mapped.items()}
        self.mapped_port = self.mapped_ports[port]
        self._lines: Queue[str | None] = Queue()
        self.log: list[str] = []
        root = Path(self._place.name, "root")
        root.mkdir()
        bound = {sys.base_prefix, sys.prefix, str(dockerfile.ROOT), sysconfig.get_path("purelib")}
        self._order = {
            "root": str(root),
            "context": str(dockerfile.ROOT),
            "prefix": sys.prefix,
            "bound": sorted(one for one in bound if not one.startswith("/usr/")),
            "steps": image.steps,
            "path": image.environment["PATH"],
            "environment": {**image.environment, "HOSTNAME": self.hostname, **(environment or {})},
            "user": image.user,
            "directory": image.directory,
            "hostname": self.hostname,
            "aliases": aliases,
            "mapped": {one.fileno(): inside for inside, one in self._mapped.items()},
            "command": [*(image.entrypoint if entrypoint is None else entrypoint), *(command or image.command)],
        }

    def __enter__(self) -> Container:
        order = Path(self._place.name, "order.json")
        order.write_text(json.dumps(self._order))
        ours, theirs = socket.socketpair()
        ours.settimeout(TIMEOUT_S)
        self._orders = ours.makefile("rw")
        ours.close()
        numbers = [*(one.fileno() for one in self._mapped.values()), theirs.fileno()]
        self._process = subprocess.Popen(
            [*NAMESPACES, sys.executable, "-S", str(INSIDE), str(order), str(theirs.fileno())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=numbers,
        )
        theirs.close()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._orders.close()
        for one in self._mapped.values():
            one.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._place.cleanup()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def log_so_far(self) -> list[str]:
        """All lines that have come."""
        while not self._lines.empty():
            line = self._lines.get_nowait()
            if line is None:
                raise AssertionError("the container has ended:\n" + "\n".join(self.log))
            self.log.append(line)
        return self.log

    def wait_for_log(self, pattern: str) -> str:
        """Return the line with this pattern, as soon as it is there; earlier lines are in `log`."""
        while True:
            try:
                line = self._lines.get(timeout=TIMEOUT_S)
            except Empty:
                line = None
            if line is None:
                raise AssertionError(f"no line {pattern!r} in the log:\n" + "\n".join(self.log))
            self.log.append(line)
            if re.search(pattern, line):
                return line

    def copy(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file into the container, as root."""
        data = content.encode() if isinstance(content, str) else content
        self._say({"path": path, "content": base64.b64encode(data).decode(), "mode": mode})

    def run(self, *command: str) -> tuple[int, str]:
        """Run a command inside, as the image's user; its exit status and output."""
        status, out = self._say({"run": command})
        return status, out

    def _say(self, order: Mapping[str, object]) -> tuple[int, str]:
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        line = self._orders.readline()
        assert line, "the container has ended:\n" + "\n".join(self.log)
        answer = json.loads(line)
        return answer if isinstance(answer, list) else (0, "")
