"""Builds a wheel in which mypyc has compiled the modules that each request runs through.

    python -m tools.compiled [--out dist] [--tree build/compiled]

The wheel is for one Python and one platform. `make wheel` builds the wheel for all of them, without a compiler.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

MODULES = """
protocol/{frames,message,wire}
protocol/messages/{error_codes,heartbeat,offset_commit}
protocol/messages/{add_offsets_to_txn,add_partitions_to_txn,end_txn,txn_offset_commit}
protocol/messages/group_records/offset_commit
protocol/messages/transaction_records/*
coordinator/state_machine/output
coordinator/transactions/{add_partitions,core,end_txn,init_producer_id,state,timeouts,transaction}
coordinator/groups/core
coordinator/groups/classic/sessions
coordinator/groups/common/{committed_offsets,state}
coordinator/groups/offsets/{commit,txn_commit}
coordinator/runtime/{replies,routing,shard}
coordinator/runtime/group_coordinator/{record_codec,shard}
coordinator/runtime/transaction_coordinator/{record_codec,shard,transactions}
coordinator/log/{disk_durability,durability,unified_log}
coordinator/log/producers/{append_checks,state,state_manager}
coordinator/log/records/{batches,headers}
coordinator/log/segments/{log_segments,segment}
coordinator/log/storage/files
coordinator/api/{cached_requests,decoded_requests,dispatch,exchange}
coordinator/api/groups/offset_commit
coordinator/api/transactions/txn_offset_commit
coordinator/net/{connection,connection_core}
"""
"""The modules that are compiled, below muster/. Packages themselves stay as they are."""

INTERPRETED = {
    "coordinator/groups/common/state.py": ("PackedRecord",),
    "coordinator/groups/offsets/commit.py": ("CommitCommand",),
    "coordinator/groups/offsets/txn_commit.py": ("TxnCommitCommand",),
    "coordinator/net/connection_core.py": ("IllegalTransition",),
    "coordinator/transactions/state.py": ("Timeouts",),
}
"""Classes of these modules that stay with the interpreter. Mypyc compiles no subclass of RuntimeError or of a
named tuple. An interpreted dataclass with slots would have the fields of a compiled base class twice.
"""

EXTENDED = {
    "protocol/message.py": ("Message", "ProtocolError"),
    "coordinator/state_machine/output.py": ("Output",),
}
"""Compiled classes that have subclasses in modules that are not compiled."""

_FUTURE = "from __future__ import annotations\n"
_MYPYC_ATTR = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from mypy_extensions import mypyc_attr"
_INTERPRETED = "from typing import Any\n\n\ndef interpreted(one: Any) -> Any:\n    return one\n"


def modules(package: Path) -> list[Path]:
    """The files of `MODULES`. Raises ValueError for a line that names none."""
    found: dict[Path, None] = {}
    for line in MODULES.split():
        start, brace, rest = line.partition("{")
        names, _, end = rest.partition("}")
        for name in names.split(",") if brace else ("",):
            files = [one for one in sorted(package.glob(f"{start}{name}{end}.py")) if one.name != "__init__.py"]
            if not files:
                raise ValueError(f"no module is called {start}{name}{end}")
            found.update(dict.fromkeys(files))
    return list(found)


def copy(tree: Path) -> None:
    """Copy the package and what its metadata names. Links become folders."""
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT / "muster", tree / "muster", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, tree)


def mark(package: Path) -> None:
    """Say in the copied sources which classes mypyc leaves to the interpreter, and which have subclasses elsewhere.

    The `__slots__` of messages become class variables: mypyc keeps no other, and messages compare by their `__slots__`.
    """
    for module in modules(package):
        text = module.read_text(encoding="utf-8")
        if "(Message):\n" in text:
            text = text.replace(_FUTURE, f"{_FUTURE}\nfrom typing import ClassVar\n", 1)
            text = text.replace("\n    __slots__ = ", "\n    __slots__: ClassVar[tuple[str, ...]] = ")
            module.write_text(text, encoding="utf-8")
    (package / "interpreted.py").write_text(_INTERPRETED, encoding="utf-8")
    for marked, line, decorator in (
        (INTERPRETED, "from muster.interpreted import interpreted", "@interpreted"),
        (EXTENDED, _MYPYC_ATTR, "@mypyc_attr(allow_interpreted_subclasses=True)"),
    ):
        for name, classes in marked.items():
            text = (package / name).read_text(encoding="utf-8")
            for one in classes:
                text, count = re.subn(rf"(?m)^class {one}\b", f"{decorator}\nclass {one}", text)
                if count != 1:
                    raise ValueError(f"{name} has no class {one}")
            text = text.replace(_FUTURE, f"{_FUTURE}\n{line}\n", 1)
            (package / name).write_text(text, encoding="utf-8")


def has_compiler() -> bool:
    """Whether the C compiler with which Python was built, or the one that CC names, is on this machine."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(command.split()[0]) is not None


def build(tree: Path, out: Path, level: str) -> None:
    """Compile the modules of the copied tree, and pack the tree as a wheel."""
    from mypyc.build import mypycify
    from setuptools import setup  # type: ignore[import-untyped]
    from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

    class InThreads(build_ext):  # type: ignore[misc]
        """Compiles the C files of one library at the same time."""

        def build_extensions(self) -> None:
            compile_all = self.compiler.compile

            def compile_each(sources: list[str], **options: Any) -> list[str]:
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    return [made[0] for made in pool.map(lambda one: compile_all([one], **options), sources)]

            self.compiler.compile = compile_each
            super().build_extensions()

    os.chdir(tree)
    paths = [str(one) for one in modules(Path("muster"))]
    print(f"compiling {len(paths)} modules", file=sys.stderr)
    libraries = mypycify(
        ["--config-file", "pyproject.toml", "--disable-error-code", "misc", "--no-warn-unused-ignores", *paths],
        multi_file=True, group_name="muster", target_dir="c", opt_level=level, debug_level="0",
    )  # fmt: skip
    setup(
        ext_modules=libraries,
        cmdclass={"build_ext": InThreads},
        script_args=["-q", "bdist_wheel", "--dist-dir", str(out)],
    )


def main(arguments: list[str] | None = None) -> int:
    """Build the wheel, and print its path."""
    parser = argparse.ArgumentParser(prog="python -m tools.compiled", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the wheel goes")
    parser.add_argument("--tree", type=Path, default=ROOT / "build" / "compiled", help="where the sources are copied")
    parser.add_argument("--level", default="1", help="how far the C compiler optimizes (0 to 3)")
    options = parser.parse_args(arguments)
    if not has_compiler():
        parser.error("this machine has no C compiler; make wheel needs none")
    tree, out = options.tree.resolve(), options.out.resolve()
    copy(tree)
    mark(tree / "muster")
    build(tree, out, options.level)
    return 0


if __name__ == "__main__":
    sys.exit(main())
