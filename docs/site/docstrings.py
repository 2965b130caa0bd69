"""Docstrings as Markdown, for mkdocstrings: a plain list of parameters becomes a list, and names of the package become links."""

from __future__ import annotations

import re
from typing import Any

import griffe

PARAMETER = re.compile(r"^(?P<names>`?\w+`?(?:, `?\w+`?)*): (?P<text>.*)$")


def as_markdown(text: str, parameters: set[str]) -> str:
    lines: list[str] = []
    for line in text.split("\n"):
        found = PARAMETER.match(line)
        names = re.findall(r"\w+", found["names"]) if found else []
        if found and set(names) & parameters:
            if lines and lines[-1].strip() and not lines[-1].startswith(("- ", "    ")):
                lines.append("")
            line = "- " + ", ".join(f"`{name}`" for name in names) + f": {found['text']}"
        if not line.startswith("    ") or any(before.startswith("- ") for before in lines):
            parts = re.split(r"(`+[^`]*`+)", line)
            parts[::2] = [re.sub(r"\bdwell\.[A-Z]\w*", r"[\g<0>][]", part).replace("<", "&lt;") for part in parts[::2]]
            line = "".join(parts)
        lines.append(line)
    return "\n".join(lines)


class Docstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        function = obj.members.get("__init__", obj) if isinstance(obj, griffe.Class) else obj
        parameters = {p.name for p in function.parameters} if isinstance(function, griffe.Function) else set()
        if isinstance(obj, griffe.Class):
            parameters |= set(obj.members)
        obj.docstring.value = as_markdown(obj.docstring.value, parameters)
