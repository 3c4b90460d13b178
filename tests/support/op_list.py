"""Reads the rows OP("call in PyTorch", call in C++) of support/cases/*.hpp, the one list of the library's operations."""

import re
from pathlib import Path

CASES = Path(__file__).resolve().parent / "cases"


class Op:
    """One row: its call in C++ (`text`) and in PyTorch (`torch`), and its `properties`, such as .bench("x")."""

    def __init__(self, family, torch, text, properties):
        self.family, self.torch, self.text, self.properties = family, torch, text, properties

    @property
    def name(self):
        return self.text.split("(")[0]

    @property
    def golden(self):
        return ".only_timed()" not in self.properties

    @property
    def timed(self):
        """Names of the rows of the benchmark that time the forward call."""
        rows = [re.fullmatch(r'\.bench\("[^"]*"(?:, "([^"]*)")?\)', text) for text in self.properties]
        return [row[1] or self.name for row in rows if row]

    @property
    def range(self):
        """The range of arguments of a unary function, or None."""
        found = re.search(r", (-?[\d.]+), (-?[\d.]+)\)$", self.properties[0]) if self.properties else None
        return found and (float(found[1]), float(found[2]))


def end_of_parentheses(text, at):
    """The position after the parenthesis that closes the one at text[at]. Strings of a row hold balanced parentheses."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError(f"no end of {text[at : at + 60]!r}")


def read_ops():
    """All rows, in the order of the files' names and lines."""
    ops = []
    for path in sorted(CASES.glob("*.hpp")):
        text = path.read_text()
        for start in re.finditer(r"^\s*OP(?=\()", text, re.M):
            end = end_of_parentheses(text, start.end())
            torch, call = re.fullmatch(r'"([^"]*)",\s*(.*)', text[start.end() + 1 : end - 1], re.S).groups()
            properties = []
            while found := re.compile(r"\s*(\.\w+)\(").match(text, end):
                end = end_of_parentheses(text, found.end() - 1)
                properties.append(text[found.start(1) : end])
            ops.append(Op(path.stem, torch, call, properties))
    return ops
