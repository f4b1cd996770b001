"""Collects the lines of a generated function, and the struct constants that functions of a module share."""

from __future__ import annotations


class Packers:
    """The struct constants of one generated module."""

    def __init__(self) -> None:
        self._uses: set[tuple[str, str]] = set()

    def use(self, codes: list[str], method: str) -> str:
        """The name of the constant that unpacks ("get") or packs ("put") these codes."""
        codes_text = "".join(codes)
        self._uses.add((codes_text, method))
        return f"_{method}_{codes_text.replace('?', 'z').replace('16s', 'u')}"

    def lines(self) -> list[str]:
        """The lines that define the constants."""
        how = {"get": "unpack_from", "put": "pack"}
        return [f'{self.use([c], m)} = Struct(">{c}").{how[m]}' for c, m in sorted(self._uses)]


class Source:
    """Collects the lines of one function body."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 1
        self._count = 0

    def __call__(self, line: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.indent + line)

    def fresh(self, base: str) -> str:
        """A variable name that was not used yet."""
        self._count += 1
        return f"{base}{self._count}"

    def text(self) -> str:
        """The text of the function body."""
        return "\n".join(self.lines)
