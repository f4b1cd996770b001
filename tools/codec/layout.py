"""Writes the layout of messages as text into each generated module, for people and for muster.protocol.malformed."""

from __future__ import annotations

from tools.codec.schema import Field, Message, Struct


def layout(message: Message) -> str:
    """A line for the message, and a line for each field. The fields of a struct are indented below the struct.

    A field line is `name type versions`, with `nullable=RANGE` and `tag=NUMBER:RANGE` where they apply.
    """
    lines = [f"{message.name} {message.versions} flexible={message.flexible}"]
    _fields(message.root, 1, lines)
    return "\n".join(lines)


def _fields(struct: Struct, depth: int, lines: list[str]) -> None:
    for f in struct.fields:
        lines.append("  " * depth + _line(f))
        if f.struct:
            _fields(f.struct, depth + 1, lines)


def _line(f: Field) -> str:
    kind = ("[]" if f.array else "") + (f.struct.name if f.struct else f.kind)
    words = [f.name, kind, str(f.versions)]
    if f.nullable:
        words.append(f"nullable={f.nullable}")
    if f.tag is not None:
        words.append(f"tag={f.tag}:{f.tagged}")
    return " ".join(words)
