"""Runs the load generator frameload.c, which any C compiler compiles when it is first needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("frameload.c")


WARM_ANSWERS = 4
"""How many answers each connection must have before the measure begins."""


class Load(NamedTuple):
    """The result of one run."""

    requests: int
    requests_per_s: float
    received_bytes: int
    server_cpu_us: float
    """The CPU time (user and system) of the server's process during the load."""
    server_kernel_us: float
    """The part of it in the kernel: sockets, files, and the waits of threads."""
    errors: int
    first_error: int
    p99_us: float

    @property
    def cpu_us_per_request(self) -> float:
        """Server CPU time for one request."""
        return self.server_cpu_us / self.requests


class FrameLoad:
    """The compiled generator and a folder for its frames."""

    def __init__(self, workdir: Path) -> None:
        """Compile the generator into `workdir`. Raises RuntimeError when there is no C compiler."""
        compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
        if compiler is None:
            raise RuntimeError("the load generator needs a C compiler (cc, gcc or clang) on PATH")
        self.workdir = workdir
        self.program = workdir / "frameload"
        subprocess.run([compiler, "-O2", "-o", self.program, SOURCE], check=True)

    def run(
        self,
        port: int,
        pid: int,
        frames: Iterable[bytes],
        *,
        connections: int,
        seconds: float,
        depth: int = 1,
        error_at: int | Sequence[int] = 12,
        answer_bytes: int = 65536,
        requests: int = 0,
        warm: int = WARM_ANSWERS,
        retry: str | None = None,
    ) -> Load:
        """Send the frames in turn from `connections` connections. frameload.c describes the parameters. Several numbers
        in `error_at` are for the requests of a connection in turn. Raises RuntimeError when the server closes a
        connection, or answers any request with an error.
        """
        path = self.workdir / "frames"
        path.write_bytes(b"".join(frames))
        errors_at = error_at if isinstance(error_at, int) else ",".join(map(str, error_at))
        words = [self.program, port, connections, seconds, path, depth, errors_at, answer_bytes, requests, warm]
        done = subprocess.run(
            [str(word) for word in words],
            env={**os.environ, "SERVER_PID": str(pid), **({"RETRY": retry} if retry else {})},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"frameload ended with status {done.returncode}: {done.stdout}{done.stderr}")
        output = json.loads(done.stdout)
        load = Load(
            output["requests"],
            output["req_s"],
            int(output["bytes"]),
            (output["user_ms"] + output["kernel_ms"]) * 1000,
            output["kernel_ms"] * 1000,
            output["errors"],
            output["first_error"],
            output["p99_us"],
        )
        if load.errors:
            raise RuntimeError(
                f"{load.errors} of {load.requests} answers carried an error, the first one {load.first_error}"
            )
        return load
