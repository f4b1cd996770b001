"""The inside of a container, for tests on machines without an engine: run by `unshare` in namespaces of its own.

It lays out a file tree by a Dockerfile's last stage over this machine's /usr, starts the given command there as the
image's user, and answers its port through a listening socket of the outside, as an engine's mapped port does. Orders
(write a file, run a command) come over a socket, one JSON object a line.

Arguments: a file with the order to start, which names the listening sockets; the number of the socket of orders.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

LINKED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
COPIED = ("nsswitch.conf", "ld.so.cache", "login.defs", "pam.d")


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


class Tree:
    """The container's file tree: a base of this machine, with the image's layers on it."""

    def __init__(self, root: Path, order: dict[str, Any]) -> None:
        self.root, self.order = root, order

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def lay_out(self) -> None:
        root = self.root
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(root))
        layers = root / ".layers"
        for name in ("upper", "work"):
            (layers / name).mkdir(parents=True)
        for name in ("usr", "proc", "dev", "etc", "tmp", "var/lib", "opt", "mnt"):
            (root / name).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        options = f"lowerdir=/usr,upperdir={layers}/upper,workdir={layers}/work"
        mount("-t", "overlay", "overlay", "-o", options, str(root / "usr"))
        for name in LINKED:
            there = Path("/", name)
            if there.is_symlink():
                (root / name).symlink_to(there.readlink())
            elif there.is_dir():
                (root / name).mkdir()
                mount("--rbind", str(there), str(root / name))
        mount("--rbind", "/dev", str(root / "dev"))
        mount("-t", "proc", "proc", str(root / "proc"))
        for name in COPIED:
            there = Path("/etc", name)
            if there.is_dir():
                shutil.copytree(there, root / "etc" / name, symlinks=True)
            elif there.exists():
                shutil.copy(there, root / "etc" / name)
        for name in ("passwd", "group"):
            # the machine's accounts of the system; an image has no accounts of people
            rows = Path("/etc", name).read_text().splitlines(keepends=True)
            kept = [row for row in rows if int(row.split(":")[2]) < 1000]
            (root / "etc" / name).write_text("".join(kept))
        hostname = self.order["hostname"]
        (root / "etc" / "hosts").write_text(f"127.0.0.1 localhost\n127.0.0.1 {hostname} {self.order['aliases']}\n")
        (root / "etc" / "resolv.conf").touch()
        # Muster itself, as this environment has it
        for path in self.order["bound"]:
            self.at(path).mkdir(parents=True, exist_ok=True)
            mount("--bind", path, str(self.at(path)))

    def build(self) -> None:
        """Lay the image's layers on it."""
        for word, words in self.order["steps"]:
            if word == "RUN":
                self._as_root(["sh", "-c", words[0]])
            elif "--from=build" in words:
                # what the first stage would have built
                (self.root / words[-1].lstrip("/")).symlink_to(self.order["prefix"])
            else:
                self._copy(words)

    def _copy(self, words: list[str]) -> None:
        source, target = words[-2], words[-1]
        for place, _, files in os.walk(Path(self.order["context"], source)):
            inner = os.path.relpath(place, Path(self.order["context"], source))
            self._directory(os.path.normpath(f"{target}/{inner}"), words)
            for name in files:
                path = self.at(f"{target}/{inner}/{name}")
                shutil.copy(Path(place, name), path)
                self._owned(path, words)

    def _directory(self, target: str, words: list[str]) -> None:
        path = self.at(target)
        if not path.exists():
            path.mkdir(parents=True)
            self._owned(path, words)

    def _owned(self, path: Path, words: list[str]) -> None:
        for word in words:
            if word.startswith("--chown="):
                inside = "/" + str(path.relative_to(self.root))
                self._as_root(["chown", word.removeprefix("--chown="), inside])

    def _as_root(self, command: list[str]) -> None:
        subprocess.run(["chroot", str(self.root), *command], check=True, env={"PATH": self.order["path"]})

    def user(self) -> tuple[int, int]:
        for line in (self.root / "etc" / "passwd").read_text().splitlines():
            name, _, uid, gid, *_ = line.split(":")
            if name == self.order["user"]:
                return int(uid), int(gid)
        raise LookupError(self.order["user"])

    def start(self, command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        """Start a command as the image's user."""
        uid, gid = self.user()

        def enter() -> None:
            os.chroot(self.root)
            os.chdir(self.order["directory"])
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)

        # the command is found on the container's PATH, once it is inside
        return subprocess.Popen(["env", *command], env=self.order["environment"], preexec_fn=enter, **more)


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b""))  # SIOCSIFFLAGS: UP, RUNNING


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for one in (source, target):
            one.close()


def map_port(outside: socket.socket, port: int) -> None:
    """Answer outer connections at the container's port. The socket stays in the network where it was made."""
    while True:
        client, _ = outside.accept()
        try:
            server = socket.create_connection(("127.0.0.1", port))
        except OSError:
            client.close()
            continue
        for one, other in ((client, server), (server, client)):
            threading.Thread(target=pump, args=(one, other), daemon=True).start()


def obey(orders: socket.socket, tree: Tree) -> None:
    """Carry out the orders, one by one."""
    lines = orders.makefile("rw")
    for line in lines:
        order = json.loads(line)
        if "path" in order:
            # as `docker cp` does: owned by root, with that mode, and renamed from a temporary name
            path = tree.at(order["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(path.name + ".new")
            new.write_bytes(base64.b64decode(order["content"]))
            new.chmod(order["mode"])
            new.rename(path)
            answer: object = True
        else:
            process = tree.start(order["run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            out, _ = process.communicate()
            answer = [process.returncode, out.decode()]
        lines.write(json.dumps(answer) + "\n")
        lines.flush()


def main() -> int:
    order = json.loads(Path(sys.argv[1]).read_text())
    socket.sethostname(order["hostname"])
    loopback_up()
    tree = Tree(Path(order["root"]), order)
    tree.lay_out()
    tree.build()
    main_process = tree.start(order["command"], stdin=subprocess.DEVNULL)
    for outside, port in order["mapped"].items():
        listening = socket.socket(fileno=int(outside))
        threading.Thread(target=map_port, args=(listening, port), daemon=True).start()
    threading.Thread(target=obey, args=(socket.socket(fileno=int(sys.argv[2])), tree), daemon=True).start()
    return main_process.wait()


if __name__ == "__main__":
    sys.exit(main())
