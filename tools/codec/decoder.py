"""Writes the code of decoders. A decoder reads one message in one version.

The parameters of a decoder are (b, p, end): bytes, first position, position after the message. The decoder of a request
also has `left`: how many elements all arrays may have together. Neighbouring fields of fixed size become one struct
read. Bytes after the message are ignored, as in Kafka. A tagged field with bytes after its value, but within its
announced size, is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.protocol.wire import MAX_ELEMENTS
from tools.codec.schema import CODES, SIZES, Field, Message, Struct
from tools.codec.source import Packers, Source

# Adds a helper function with this suggested name, result type and body; returns the name that the helper got.
Helper = Callable[[str, str, str], str]


class Decoder(Source):
    """Builds the body of one decoder."""

    def __init__(self, message: Message, version: int, packers: Packers, helper: Helper) -> None:
        super().__init__()
        self._message, self._version, self._packers, self._helper = message, version, packers, helper
        self._run: list[tuple[str, str]] = []
        self._flexible = version in message.flexible
        self._counts = message.kind == "request"
        self._left_is_used = False

    def body(self) -> str:
        """Return the whole function body."""
        value = self._struct(self._message.root)
        return self._finish(value, "p > end")

    def _finish(self, value: str, wrong: str) -> str:
        self._flush()
        self(f"if {wrong}:")
        self("    refuse()")
        self(f"return {value}")
        return self.text()

    # ---- fixed-size runs

    def _fixed(self, code: str) -> str:
        name = self.fresh("v")
        self._run.append((code, name))
        return name

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        get = self._packers.use([code for code, _ in run], "get")
        names = ", ".join(name for _, name in run)
        self(f"({names},) = {get}(b, p)" if len(run) == 1 else f"{names} = {get}(b, p)")
        self(f"p += {sum(SIZES[code] for code, _ in run)}")

    # ---- values

    def _value(self, f: Field, array: bool) -> str:
        """Write the read of a field (`array` False: of one element). Returns an expression for the value."""
        null = self._version in f.nullable and array == f.array
        if array:
            return self._array(f, null)
        if f.struct:
            return self._nullable_struct(f.struct, tagged=False) if null else self._struct(f.struct)
        if f.kind in CODES:
            return self._fixed(CODES[f.kind])
        return self._compact(f.kind, null) if self._flexible else self._classic(f.kind, null)

    def _compact(self, kind: str, null: bool) -> str:
        """Write the read of a compact string or bytes. A length of one byte is read without a call."""
        self._flush()
        n, x = self.fresh("n"), self.fresh("s")
        text = kind == "string"
        self(f"{n} = b[p]")
        self(f"if 0 < {n} < 128:")
        self("    q = p + 1")
        self(f"    p += {n}")
        self(f"    {x}{self._annotation(kind, null)} = b[q:p]{'.decode()' if text else ''}")
        if null:
            self(f"elif {n} == 0:")
            self(f"    {x} = None")
            self("    p += 1")
        self("else:")
        self(f"    {x}, p = {self._long(kind)}(b, p, end)")
        return x

    def _annotation(self, kind: str, null: bool) -> str:
        """The annotation of a variable that may have values of two types; other variables need none."""
        is_view = kind == "records" and self._counts
        if not null and not is_view:
            return ""
        types = "str" if kind == "string" else "bytes | memoryview" if is_view else "bytes"
        return f": {types} | None" if null else f": {types}"

    def _long(self, kind: str) -> str:
        if kind == "string":
            return "long_string"
        return "long_part" if kind == "records" and self._counts else "long_bytes"

    def _classic(self, kind: str, null: bool) -> str:
        """Write the read of a string with a 16-bit length, or bytes with a 32-bit length; -1 is null."""
        n = self._fixed("h" if kind == "string" else "i")
        self._flush()
        x = self.fresh("s")
        text = kind == "string"
        self(f"if {n} >= 0:")
        self("    q = p")
        self(f"    p += {n}")
        is_view = kind == "records" and self._counts
        value = "part(b, q, p)" if is_view else "b[q:p].decode()" if text else "b[q:p]"
        self(f"    {x}{self._annotation(kind, null)} = {value}")
        if null:
            self(f"elif {n} == -1:")
            self(f"    {x} = None")
        self("else:")
        self("    refuse()")
        return x

    def _array(self, f: Field, null: bool) -> str:
        if self._flexible:
            self._flush()
            n = self.fresh("n")
            self(f"{n} = b[p]")
            self("p += 1")
            self(f"if {n} > 127:")
            self(f"    {n}, p = uvarint(b, p - 1)")
            self(f"{n} -= 1")
        else:
            n = self._fixed("i")
            self._flush()
        x = self.fresh("a")
        element = f.struct.name if f.struct else {"string": "str", "uuid": "bytes"}.get(f.kind, "int")
        optional = " | None" if null else ""
        least = self._least(f)
        size = f"{n} * {least}" if least > 1 else n
        self(f"{x}: list[{element}]{optional} = []")
        self(f"if {n} < 0 or {size} > end - p:")
        if null:
            self(f"    if {n} != -1:")
            self("        refuse()")
            self(f"    {x} = None")
            self("else:")
        else:
            self("    refuse()")
            self(f"if {n}:")
        self.indent += 1
        if self._counts:
            # a request with millions of objects would delay all other clients for seconds
            self._left_is_used = True
            self(f"left -= {n}")
            self("if left < 0:")
            self("    too_many()")
        self._elements(f, x, n, null)
        self.indent -= 1
        return x

    def _elements(self, f: Field, x: str, n: str, null: bool) -> None:
        if f.code and f.kind != "uuid":
            self(f'{x} = [*get_many("{f.code}", {n})(b, p)]')
            self(f"p += {n} * {SIZES[f.code]}")
            return
        into = x
        if null:
            into = self.fresh("items")
            element = f.struct.name if f.struct else {"string": "str", "uuid": "bytes"}[f.kind]
            self(f"{into}: list[{element}] = []")
            self(f"{x} = {into}")
        self(f"for _ in range({n}):")
        self.indent += 1
        one = self._value(f, array=False)
        self._flush()
        self(f"{into}.append({one})")
        self.indent -= 1

    def _least(self, f: Field) -> int:
        """The fewest bytes of one element, at least 1. So the bytes that are left limit the number of elements."""
        least = self._least_of_struct(f.struct) if f.struct else self._least_of(f, array=False)
        if least == 0:
            raise ValueError(f"elements of {f.name} may be empty in version {self._version} of {self._message.name}")
        return least

    def _least_of_struct(self, struct: Struct) -> int:
        plain, _ = struct.at(self._version)
        return sum(self._least_of(f, f.array) for f in plain) + self._flexible

    def _least_of(self, f: Field, array: bool) -> int:
        if array:
            return 1 if self._flexible else 4
        if f.struct:
            return 1 if self._version in f.nullable else self._least_of_struct(f.struct)
        if f.kind in CODES:
            return SIZES[CODES[f.kind]]
        return 1 if self._flexible else 2 if f.kind == "string" else 4

    # ---- structs

    def _nullable_struct(self, struct: Struct, *, tagged: bool) -> str:
        """Write the read of a struct that may be null. Null is a negative byte, or in a tagged field a varint 0."""
        x = self.fresh("o")
        if tagged:
            marker = self.fresh("n")
            self(f"{marker}, p = uvarint(b, p)")
        else:
            marker = self._fixed("b")
            self._flush()
        self(f"{x}: {struct.name} | None = None")
        self(f"if {marker} {'> 0' if tagged else '>= 0'}:")
        self.indent += 1
        value = self._struct(struct)
        self._flush()
        self(f"{x} = {value}")
        self.indent -= 1
        return x

    def _struct(self, struct: Struct) -> str:
        plain, tagged = struct.at(self._version)
        values = {f.name: self._value(f, f.array) for f in plain}
        if self._flexible:
            self._flush()
            self._tags(struct, tagged, values)
        return f"{struct.name}({', '.join(values.get(f.name, f.zero) for f in struct.fields)})"

    def _tags(self, struct: Struct, tagged: list[Field], values: dict[str, str]) -> None:
        self("if b[p]:")
        if self._counts:
            self._left_is_used = True
            # tagged fields are not kept, so `left` is checked only when the next array is read
            self("    left -= b[p]")
        if not tagged:
            self("    p = skip_tags(b, p, end)")
            self("else:")
            self("    p += 1")
            return
        readers = ", ".join(f"{f.tag}: {self._tag_reader(struct, f)}" for f in tagged)
        got = self.fresh("t")
        self(f"    {got}, p = read_tags(b, p, end, {{{readers}}})")
        for f in tagged:
            values[f.name] = self.fresh("g")
            self(f"    {values[f.name]}: {f.python_type} = {got}.get({f.tag}, {f.zero})")
        self("else:")
        self("    p += 1")
        for f in tagged:
            self(f"    {values[f.name]} = {f.zero}")

    def _tag_reader(self, struct: Struct, f: Field) -> str:
        reader = Decoder(self._message, self._version, self._packers, self._helper)
        if f.struct and not f.array and self._version in f.nullable:
            value = reader._nullable_struct(f.struct, tagged=True)
        else:
            value = reader._value(f, f.array)
        reader._flush()
        reader(f"value: {f.python_type} = {value}")
        body = reader._finish("value", "p != end")
        if reader._left_is_used:
            body = f"    left = {MAX_ELEMENTS}\n{body}"
        return self._helper(f"_get_{struct.name}_{f.name}", f.python_type, body)
