"""The bench measures what its rows name: the server that it starts is the one that the row is about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES_ITS_CACHES = """\
from bench.load import uncached

def stop(config, *, caches=True, **others):
    print("caches", caches)
    raise SystemExit(0)

uncached.Server = uncached.server.process.Server = stop
uncached.main(["serve", "--listen", "127.0.0.1:0"])
"""


def test_the_server_without_cached_requests_caches_none() -> None:
    command = [sys.executable, "-c", NAMES_ITS_CACHES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("caches False\n", 0), done.stderr
