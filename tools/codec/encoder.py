"""Writes the code of encoders. An encoder writes one message in one version.

An encoder takes the message and returns bytes. For a message with record batches it returns a list of parts: large
parts are sent without a copy. For a large answer with arrays it does the same. Neighbouring values of fixed size become
one pack.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.protocol.wire import MAX_PARTS
from tools.codec.schema import CODES, SIZES, Field, Message, Struct
from tools.codec.source import Packers, Source

# Adds a helper function with this suggested name, argument type and body; returns the name that the helper got.
Helper = Callable[[str, str, str], str]

OUT = "    out: list[bytes] = []"
PARTS = "    out: Parts = []"
WHOLE = "    whole: Parts = []"
BYTES_IN_LINE = 1000  # compact lengths below this are looked up without a call


class Encoder(Source):
    """Builds the body of one encoder."""

    def __init__(self, message: Message, version: int, packers: Packers, helper: Helper) -> None:
        super().__init__()
        self._message, self._version, self._packers, self._helper = message, version, packers, helper
        self._run: list[tuple[str, str]] = []
        self._parts: list[str] = []
        self._uses_out = False
        self._flexible = version in message.flexible
        self._may_fold = False
        self._folds = False

    def body(self) -> str:
        """Return the whole function body."""
        self._may_fold = self._message.kind == "response"
        self._struct(self._message.root, "m")
        return self._finish(self._message.has_records)

    def _finish(self, as_parts: bool) -> str:
        self._end_run()
        if as_parts:
            self._flush()
            if self._folds:
                return "\n".join([PARTS, WHOLE, *self.lines, "    return ended_parts(whole, out)"])
            return "\n".join([PARTS, *self.lines, "    return out"])
        if self._folds:
            self._flush()
            return "\n".join([OUT, WHOLE, *self.lines, "    return ended(whole, out)"])
        if self._uses_out:
            self._flush()
            return "\n".join([OUT, *self.lines, '    return b"".join(out)'])
        if not self._parts:
            self('return b""')
        elif len(self._parts) == 1:
            self(f"return {self._parts[0]}")
        else:
            self(f'return b"".join(({", ".join(self._parts)}))')
        return self.text()

    # ---- runs and parts

    def _fixed(self, code: str, expression: str) -> None:
        self._run.append((code, expression))

    def _part(self, expression: str) -> None:
        self._end_run()
        self._parts.append(expression)

    def _end_run(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        if all(expression == "0" for _, expression in run):
            self._parts.append(literal(bytes(sum(SIZES[code] for code, _ in run))))
            return
        put = self._packers.use([code for code, _ in run], "put")
        self._parts.append(f"{put}({', '.join(expression for _, expression in run)})")

    def _flush(self) -> None:
        self._end_run()
        parts, self._parts = self._parts, []
        if parts:
            self._uses_out = True
            self(f"out.append({parts[0]})" if len(parts) == 1 else f"out += ({', '.join(parts)})")

    # ---- values

    def _value(self, f: Field, x: str, array: bool) -> None:
        null = self._version in f.nullable and array == f.array
        if array:
            self._array(f, x, null)
        elif f.struct:
            self._struct_value(f.struct, x, null)
        elif f.kind in CODES:
            self._fixed(CODES[f.kind], x)
        else:
            self._text(f.kind, x, null, f.optional and array == f.array)

    def _refuse_none(self, x: str, name: str) -> None:
        """Write the refusal of None, for a field that may be null only in other versions."""
        self(f"{name} = {x}")
        self(f"if {name} is None:")
        self(f'    is_none("{x}")')

    def _text(self, kind: str, x: str, null: bool, optional: bool) -> None:
        """Write a string or bytes."""
        text = kind == "string"
        e = self.fresh("e")
        encoded = f"{x}.encode()" if text else x
        helper = "uvs" if text else "uv"
        if null:
            n, o = self.fresh("n"), self.fresh("o")
            self(f"{o} = {x}")
            self(f"if {o} is None:")
            self(f'    {e} = b""' if text or kind == "bytes" else f'    {e}: bytes | memoryview = b""')
            self(f"    {n} = " + ('b"\\0"' if self._flexible else "-1"))
            self("else:")
            self(f"    {e} = {o}.encode()" if text else f"    {e} = {o}")
            self(f"    {n} = " + (f"{helper}(len({e}) + 1)" if self._flexible else f"len({e})"))
            length = n
        else:
            if optional:
                o = self.fresh("o")
                self._refuse_none(x, o)
                encoded = f"{o}.encode()" if text else o
            self(f"{e} = {encoded}")
            length = f"len({e})"
            if self._flexible:
                length = f"UVARINTS[len({e}) + 1] if len({e}) < {BYTES_IN_LINE} else {helper}(len({e}) + 1)"
        if self._flexible:
            self._part(length)
        else:
            self._fixed("h" if text else "i", length)
        self._part(e)

    def _array(self, f: Field, x: str, null: bool) -> None:
        a = self.fresh("a")
        if f.optional and not null:
            self._refuse_none(x, a)
        else:
            self(f"{a} = {x}")
        if null:
            self._flush()
            self(f"if {a} is None:")
            self(f"    out.append({literal(bytes(1) if self._flexible else bytes([255] * 4))})")
            self("else:")
            self._uses_out = True
            self.indent += 1
        if self._flexible:
            self._part(f"uv(len({a}) + 1)")
        else:
            self._fixed("i", f"len({a})")
        if f.code and f.kind != "uuid":
            self._part(f'put_many("{f.code}", len({a}))(*{a})')
            if null:
                self._flush()
        else:
            self._flush()
            item = self.fresh("x")
            self(f"for {item} in {a}:")
            self.indent += 1
            self._value(f, item, array=False)
            self._flush()
            if self._may_fold and f.struct:
                self._fold()
            self.indent -= 1
        if null:
            self.indent -= 1

    def _fold(self) -> None:
        """Write the code that joins a large answer step by step.

        Millions of parts would need more memory than the answer itself. To join all of them at the end would block the
        event loop.
        """
        self._folds = True
        self(f"if len(out) > {MAX_PARTS}:")
        if self._message.has_records:
            self("    fold(whole, out)")
        else:
            self('    whole.append(b"".join(out))')
            self("    out.clear()")

    # ---- structs

    def _struct_value(self, struct: Struct, x: str, null: bool) -> None:
        if "." in x:
            o = self.fresh("o")
            self(f"{o} = {x}")
            x = o
        if not null:
            self._struct(struct, x)
            return
        self._nullable_struct(struct, x, tagged=False)

    def _nullable_struct(self, struct: Struct, x: str, *, tagged: bool) -> None:
        """Write a struct that may be null, after a marker: -1 or 1 (in a tagged field 0 or 1)."""
        self._flush()
        self(f"if {x} is None:")
        self(f"    out.append({literal(bytes(1) if tagged else bytes([255]))})")
        self("else:")
        self._uses_out = True
        self.indent += 1
        self._fixed("b", "1")
        self._struct(struct, x)
        self._flush()
        self.indent -= 1

    def _struct(self, struct: Struct, x: str) -> None:
        plain, tagged = struct.at(self._version)
        for f in struct.fields:
            if self._version not in f.versions and not f.ignorable:
                self(f"if {either([f], x)}:")
                self(f'    not_in_version("{struct.name}.{f.name}")')
        for f in plain:
            self._value(f, f"{x}.{f.name}", f.array)
        if not self._flexible:
            return
        if not tagged:
            self._fixed("B", "0")
            return
        self._tags(struct, tagged, x)

    def _tags(self, struct: Struct, tagged: list[Field], x: str) -> None:
        g = self.fresh("g")
        self(f"if {either(tagged, x)}:")
        code = None if tagged[0].array else tagged[0].code
        if len(tagged) == 1 and code:
            # most messages have a single tagged field of fixed size; count, tag, size and value then become one pack
            put = self._packers.use(["B", "B", "B", code], "put")
            self(f"    {g} = {put}(1, {tagged[0].tag}, {SIZES[code]}, {x}.{tagged[0].name})")
        else:
            t = self.fresh("t")
            self(f"    {t} = []")
            for f in tagged:
                self(f"    if {either([f], x)}:")
                self(f"        {t}.append(({f.tag}, {self._tag_writer(struct, f)}({x}.{f.name})))")
            self(f"    {g} = write_tags({t})")
        self("else:")
        self(f'    {g} = b"\\0"')
        self._part(g)

    def _tag_writer(self, struct: Struct, f: Field) -> str:
        writer = Encoder(self._message, self._version, self._packers, self._helper)
        if f.struct and not f.array and self._version in f.nullable:
            writer._nullable_struct(f.struct, "x", tagged=True)
        else:
            writer._value(f, "x", f.array)
        python_type = f.struct.name if f.absent_is_none and f.struct else f.python_type
        return self._helper(f"_put_{struct.name}_{f.name}", python_type, writer._finish(as_parts=False))


def either(fields: list[Field], x: str) -> str:
    """A Python condition that is true if any of these fields of `x` differs from its default."""
    if len(fields) == 1:
        alone = fields[0].given(x)
        return alone[1:-1] if alone.startswith("(") else alone
    return " or ".join(f.given(x) for f in fields)


def literal(value: bytes) -> str:
    """A bytes literal with double quotes."""
    return 'b"' + "".join(f"\\x{x:02x}" if x else "\\0" for x in value) + '"'
