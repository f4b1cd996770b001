"""Finds why bytes are not a message, and names the first field that cannot be read.

This module reads the bytes slowly, by the layout text of the generated module. It is used only after a generated
decoder has refused the bytes.
"""

from __future__ import annotations

from muster.protocol.message import MalformedMessage
from muster.protocol.wire import MAX_ELEMENTS, MAX_STRING, MAX_TAGS

FIXED = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16}


class LayoutField:
    """One line of a layout text: a field."""

    def __init__(self, line: str) -> None:
        name, kind, versions, *rest = line.split()
        options = dict(word.split("=") for word in rest)
        tag, _, tagged = options.get("tag", "").partition(":")
        self.name = name
        self.array = kind.startswith("[]")
        self.kind = kind.removeprefix("[]")
        self.versions = versions
        self.nullable = options.get("nullable", "none")
        self.tag = int(tag) if tag else None
        self.tagged = tagged or "none"
        self.fields: list[LayoutField] = []


def explain(layout: str, version: int, data: bytes, start: int, end: int, error: Exception) -> MalformedMessage:
    """Return the error that says why data[start:end] is not a message of this layout and version.

    `error`: the error of the generated decoder, which becomes the reason if this reader finds no fault.
    """
    head, *lines = layout.strip("\n").split("\n")
    name, _, flexible = head.split()
    is_flexible = within(version, flexible.removeprefix("flexible="))
    reader = _Reader(data, start, end, version, is_flexible, name.endswith("Request"))
    try:
        reader.struct(layout_fields(lines), name)
    except MalformedMessage as found:
        return found
    return MalformedMessage(name, f"cannot be read ({type(error).__name__}: {error})")


def layout_fields(lines: list[str]) -> list[LayoutField]:
    """Parse the lines of a layout into fields. The fields of a struct are indented below the struct."""
    top: list[LayoutField] = []
    stack = [top]
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        del stack[depth:]
        found = LayoutField(line)
        stack[-1].append(found)
        stack.append(found.fields)
    return top


def within(version: int, versions: str) -> bool:
    """Whether a version is in a range of Kafka's form: "3", "2-5", "4+", "none"."""
    if versions == "none":
        return False
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    first, dash, last = versions.partition("-")
    return int(first) <= version <= int(last if dash else first)


class _Reader:
    """Reads one message. Each method takes the path of the field that it reads."""

    def __init__(self, data: bytes, start: int, end: int, version: int, flexible: bool, is_request: bool) -> None:
        # `wire.too_many` says why
        self.left = MAX_ELEMENTS if is_request else end
        self.data, self.position, self.end = data, start, min(end, len(data))
        self.version, self.flexible = version, flexible

    def check(self, good: bool, path: str, reason: str) -> None:
        if not good:
            raise MalformedMessage(path, reason)

    def take(self, size: int, path: str) -> bytes:
        left = self.end - self.position
        self.check(size <= left, path, f"truncated: {size} bytes needed, {left} left")
        self.position += size
        return self.data[self.position - size : self.position]

    def uvarint(self, path: str) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1, path)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value & 0xFFFFFFFF
        raise MalformedMessage(path, "varint longer than 5 bytes")

    def length(self, size: int, path: str) -> int:
        """Read a length or a count; -1 stands for null."""
        return self.uvarint(path) - 1 if self.flexible else int.from_bytes(self.take(size, path), "big", signed=True)

    def struct(self, fields: list[LayoutField], path: str) -> None:
        present = [f for f in fields if within(self.version, f.versions)]
        tagged = {f.tag: f for f in present if f.tag is not None and within(self.version, f.tagged)}
        for f in present:
            if f.tag is None or tagged.get(f.tag) is not f:
                self.value(f, f"{path}.{f.name}")
        if self.flexible:
            self.tags(tagged, path)

    def count(self, more: int, path: str) -> None:
        self.left -= more
        self.check(self.left >= 0, path, f"with {more} more elements the request has more than {MAX_ELEMENTS}")

    def tags(self, known: dict[int, LayoutField], path: str) -> None:
        where = f"{path}.<tagged fields>"
        count = self.uvarint(where)
        left = self.end - self.position
        self.check(count * 2 <= left, where, f"{count} tagged fields cannot fit in the {left} bytes left")
        self.check(count <= MAX_TAGS, where, f"{count} tagged fields are more than {MAX_TAGS}")
        self.count(count, where)
        for _ in range(count):
            tag = self.uvarint(where)
            size = self.uvarint(where)
            name = f"{path}.{known[tag].name}" if tag in known else f"{path}.<tag {tag}>"
            left = self.end - self.position
            self.check(size <= left, name, f"truncated: {size} bytes needed, {left} left")
            if tag in known:
                self.tag(known[tag], name, size)
            else:
                self.position += size

    def tag(self, field: LayoutField, path: str, size: int) -> None:
        """Read a tagged field, which must have exactly the announced number of bytes."""
        outer, self.end = self.end, self.position + size
        if field.fields and not field.array and within(self.version, field.nullable):
            # in a tagged field, the marker of a struct that may be null is a varint, and 0 is null
            if self.uvarint(path):
                self.struct(field.fields, path)
        else:
            self.value(field, path)
        self.check(self.position == self.end, path, f"{self.end - self.position} bytes left over")
        self.end = outer

    def value(self, field: LayoutField, path: str) -> None:
        null = within(self.version, field.nullable)
        if not field.array:
            self.one(field, path, null)
            return
        count = self.length(4, path)
        if count == -1:
            self.check(null, path, "is null")
            return
        left = self.end - self.position
        least = FIXED.get(field.kind, 1)
        self.check(count >= 0, path, f"negative number of elements {count}")
        self.check(count * least <= left, path, f"{count} elements cannot fit in the {left} bytes left")
        self.count(count, path)
        for i in range(count):
            self.one(field, f"{path}[{i}]", False)

    def one(self, field: LayoutField, path: str, null: bool) -> None:
        if field.fields:
            if null and self.take(1, path)[0] > 127:
                return
            self.struct(field.fields, path)
        elif field.kind in FIXED:
            self.take(FIXED[field.kind], path)
        else:
            self.text(field.kind, path, null)

    def text(self, kind: str, path: str, null: bool) -> None:
        size = self.length(2 if kind == "string" else 4, path)
        if size == -1:
            self.check(null, path, "is null")
            return
        self.check(size >= 0, path, f"negative length {size}")
        if kind != "string":
            self.take(size, path)
            return
        self.check(size <= MAX_STRING, path, f"a string of {size} bytes is longer than {MAX_STRING}")
        value = self.take(size, path)
        try:
            value.decode()
        except UnicodeDecodeError as error:
            raise MalformedMessage(path, f"not UTF-8: {error.reason} at byte {error.start}") from None
