"""The page for newcomers is followed: its commands are pasted, on other ports, and with one story in place of all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.pasted_docs import blocks
from tests.support.servers import free_port_pair

PAGE = "docs/conform-in-ten-minutes.md"
BIN = Path(sys.executable).parent


def commands(name: str) -> list[str]:
    return [line for block in blocks(PAGE, "sh", name=name) for line in block.commands]


def run(line: str, cwd: Path, status: int = 0, **environment: str) -> str:
    """Paste a line into a shell; its stdout."""
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        line, shell=True, cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **path, **environment},
    )  # fmt: skip
    assert done.returncode == status, (line, done.stdout, done.stderr)
    return done.stdout


@contextmanager
def serving(line: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A server that was started by a line, and is ready."""
    with (
        (cwd / "stderr").open("w") as stderr,
        subprocess.Popen([BIN / "muster", *line.split()[1:]], cwd=cwd, stdout=subprocess.PIPE, stderr=stderr, text=True)
        as process,
    ):  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline().startswith("muster ready"), (cwd / "stderr").read_text()
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    port, control = free_port_pair(), f"127.0.0.1:{free_port_pair()}"

    def here(line: str) -> str:
        return line.replace("localhost:9092", f"127.0.0.1:{port}").replace("127.0.0.1:9094", control)

    settings, dry, core, everything = commands("broker")
    serve, fault, story = commands("fault")
    run(settings, tmp_path)
    with serving(f"{here(serve)} --listen 127.0.0.1:{port}", tmp_path):
        assert "conform-" in run(here(dry), tmp_path)
        for line in (core, everything):
            assert "as on Kafka" in run(
                f"{here(line.replace('--level core', ''))} --story offset-delete-of-simple-groups", tmp_path
            )
        assert (tmp_path / "report.html").is_file()
        run(fault, tmp_path, MUSTER_CONTROL=control)
        failed = run(here(story), tmp_path, status=1)
    [shown] = blocks(PAGE, "text")
    assert shown.text in failed


def test_the_server_of_the_page_reports_at_its_end(tmp_path: Path) -> None:
    lint, rehearse = commands("client")
    assert rehearse == lint.replace("lint", "lint --rehearse")
    with serving(f"{lint} --listen 127.0.0.1:0", tmp_path) as server:
        server.send_signal(signal.SIGINT)
        out, _ = server.communicate(timeout=60)
    assert out.startswith("client lint: ")
