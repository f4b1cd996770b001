"""Generates protocol/messages/ from definitions.json.

    python -m tools.codec.generate [--check]

With --check, nothing is written. The names of stale modules are printed, and the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tools.codec import schema
from tools.codec.emit import HEADER, module
from tools.codec.schema import Message, snake
from tools.codec.wrap import wrapped

OUT = Path(__file__).parents[2] / "protocol" / "messages"
ERRORS = Path(__file__).with_name("errors.tsv")

PACKAGES = {
    "group": "group_records",
    "share": "share_records",
    "transaction": "transaction_records",
    "metadata": "metadata_records",
}
PACKAGE_DOCS = {
    "": "Kafka's messages, one module for each API and record; `table` and `records_table` list them.",
    "group_records": "Keys and values of __consumer_offsets.",
    "share_records": "Keys and values of __share_group_state.",
    "transaction_records": "Keys and values of __transaction_state.",
    "metadata_records": "Records of __cluster_metadata.",
    "control_records": "Keys and values of control records (transaction markers, leader changes, snapshots).",
}


def place(message: Message) -> str:
    """The module that a message belongs to, as a dotted name below protocol/messages."""
    if message.kind in ("request", "response"):
        return snake(message.name.removesuffix("Request").removesuffix("Response"))
    if message.name.startswith("ConsumerProtocol"):
        return "consumer_protocol"
    if message.source == "wire":
        return f"control_records.{snake(message.name)}"
    base = message.name.removesuffix("Key").removesuffix("Value") if message.source != "metadata" else message.name
    return f"{PACKAGES[message.source]}.{snake(base)}"


def generated() -> dict[str, str]:
    """The text of every file below protocol/messages, by relative path."""
    by_module: dict[str, list[Message]] = {}
    for message in schema.load():
        by_module.setdefault(place(message), []).append(message)
    files = {f"{name.replace('.', '/')}.py": module(messages) for name, messages in by_module.items()}
    for package, doc in PACKAGE_DOCS.items():
        files[f"{package}/__init__.py".lstrip("/")] = f'{HEADER}\n"""{doc}"""\n'
    files["table.py"] = api_table(by_module)
    files["records_table.py"] = records_table(by_module)
    files["error_codes.py"] = error_codes()
    return files


def api_table(by_module: dict[str, list[Message]]) -> str:
    """The text of the table of APIs. A row: key, name, module, first, last, and first flexible version or -1."""
    rows = []
    for name, messages in by_module.items():
        request = next((m for m in messages if m.kind == "request"), None)
        if request is not None and request.key is not None:
            api = request.name.removesuffix("Request")
            flexible = request.flexible.first if request.flexible else -1
            rows.append((request.key, api, name, request.versions.first, request.versions.last, flexible))
    lines = [
        HEADER,
        '"""Every API of the codec: key, name, module, first and last version, first flexible version or -1.',
        "",
        "Reading this table imports no module of an API.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        "",
        "class ApiKey:",
        '    """The keys of the APIs, by name."""',
        "",
        *(f"    {module.upper()}: Final = {key}" for key, _, module, *_ in sorted(rows)),
        "",
        "",
        "APIS: Final[tuple[tuple[int, str, str, int, int, int], ...]] = (",
        *(f"    {quoted(row)}," for row in sorted(rows)),
        ")",
        "",
    ]
    return "\n".join(lines)


def records_table(by_module: dict[str, list[Message]]) -> str:
    """The text of the tables of record types: type -> (base name, module, first and last version of the value)."""
    lines = [
        HEADER,
        '"""The record types of Kafka\'s internal logs: type -> (name, module, first and last value version)."""',
    ]
    lines += ["", "from __future__ import annotations", "", "Row = tuple[str, str, int, int]"]
    for source in PACKAGES:
        rows = {}
        for name, messages in by_module.items():
            message = messages[-1]
            if message.source == source:
                key, value = record_type(messages)
                base = message.name if source == "metadata" else messages[0].name.removesuffix("Key")
                versions = value.versions if value else schema.Versions(0, 0)
                rows[key] = (base, name, versions.first, versions.last)
        lines += ["", f"{source.upper()}: dict[int, Row] = {{"]
        lines += [f"    {key}: {quoted(rows[key])}," for key in sorted(rows)]
        lines.append("}")
    return "\n".join([*lines, ""])


def error_codes() -> str:
    """The text of the class of error codes, and of the table code -> (name, retriable, default message)."""
    rows = [line.split("\t") for line in ERRORS.read_text().splitlines()]
    lines = [HEADER, '"""Kafka\'s error codes: by name, and code -> (name, retriable, default message)."""', ""]
    lines += ["from __future__ import annotations", "", "from typing import Final", "", ""]
    lines += ["class ErrorCode:", '    """Kafka\'s error codes by name, as plain ints."""', ""]
    lines += [f"    {name}: Final = {code}" for code, name, _, _ in rows]
    lines += ["", "", "ERRORS: Final[dict[int, tuple[str, bool, str]]] = {"]
    for code, name, retriable, message in rows:
        lines.append(f"    {code}: ({json.dumps(name)}, {retriable.capitalize()}, {json.dumps(message)}),")
    return wrapped("\n".join([*lines, "}", ""]))


def record_type(messages: list[Message]) -> tuple[int, Message | None]:
    """The record type of a module's messages, and the message of the value."""
    key = next((m.key for m in messages if m.key is not None), None)
    if key is None:
        key = 0  # this is TransactionLogKey, whose version is the record type
    value = next((m for m in messages if not m.name.endswith("Key")), None)
    return key, value


def quoted(row: tuple[int | str, ...]) -> str:
    """The text of a tuple, with double quotes."""
    return "(" + ", ".join(f'"{x}"' if isinstance(x, str) else str(x) for x in row) + ")"


def stale(files: dict[str, str]) -> list[str]:
    """The paths of files that differ on the disk, are missing, or should not exist."""
    present = {str(p.relative_to(OUT)) for p in OUT.rglob("*.py")}
    wrong = {path for path, text in files.items() if path not in present or (OUT / path).read_text() != text}
    return sorted(wrong | (present - files.keys()))


def main(arguments: list[str]) -> int:
    """Write the modules, or with --check print the stale ones."""
    parser = argparse.ArgumentParser(prog="python -m tools.codec.generate", description="Generate protocol/messages/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a module is stale")
    options = parser.parse_args(arguments)
    files = generated()
    wrong = stale(files)
    if options.check:
        for path in wrong:
            print(f"stale: protocol/messages/{path} (run python -m tools.codec.generate)")
        return 1 if wrong else 0
    for path in wrong:
        target = OUT / path
        if path in files:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(files[path])
        else:
            target.unlink()
    print(f"{len(files)} modules, {len(wrong)} changed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
