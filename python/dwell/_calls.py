"""What is said of a call that fits no signature; imported when there is one."""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from . import _dwell


class _Parameter(NamedTuple):
    name: str
    annotation: str
    required: bool
    by_position: bool
    by_name: bool
    many: bool  # *arguments


_SIGNATURE = re.compile(r"^ {4}\d+\. \w+\((.*)\)(?: -> .*)?$", re.MULTILINE)
# The types that nanobind accepts for an annotation.
_PLAIN: dict[str, tuple[type, ...]] = {"bool": (bool,), "str": (str,), "None": (type(None),)}


def _split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that stand in no brackets and no quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        depth += 0 if quote else (letter in "([{") - (letter in ")]}")
        if letter == separator and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _parameters(text: str) -> list[_Parameter]:
    """Those of a signature as nanobind shows it: "self, device: str = 'auto', *, workers: int = 0"."""
    found: list[_Parameter] = []
    by_position = True
    for part in _split(text, ","):
        if part == "/":
            found = [one._replace(by_name=False) for one in found]
        elif part == "*":
            by_position = False
        elif part.startswith("**"):
            found.append(_Parameter("**", "", False, False, True, True))
        elif part:
            declared, *default = _split(part, "=")
            name, *annotation = _split(declared, ":")
            many = name.startswith("*")
            kind = annotation[0] if annotation else "object"
            found.append(_Parameter(name.lstrip("*"), kind, not default and not many, by_position, not many, many))
            by_position = by_position and not many
    return found


def _fits(value: object, annotation: str) -> bool:
    """False where a value is certainly none of an annotation."""
    for part in _split(annotation, "|"):
        name = part.rsplit(".", 1)[-1]
        kinds = _PLAIN.get(part)
        if part == "int":
            if hasattr(value, "__index__"):
                return True
        elif part in ("float", "complex"):
            if hasattr(value, "__float__") or hasattr(value, "__index__"):
                return True
        elif kinds is not None:
            if isinstance(value, kinds):
                return True
        else:
            kind = getattr(_dwell, name, None) if part.isidentifier() or part.startswith("dwell.") else None
            if not isinstance(kind, type) or isinstance(value, kind):
                return True
    return False


def _callee(function: object, positional: list[object]) -> str:
    """Who was called, as users write it."""
    name = str(getattr(function, "__qualname__", getattr(function, "__name__", "")))
    if name == "Operator.__call__" and positional and isinstance(positional[0], _dwell.Operator):
        return f"operator '{positional[0].name}'"
    return "dwell." + name.removesuffix(".__init__").removesuffix(".__call__")


def _listed(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]


def _unknown(name: str, known: list[str], callee: str) -> str:
    close = difflib.get_close_matches(name, known, 1, 0.5)
    if close:
        return f"{callee} takes no argument `{name}`: did you mean `{close[0]}`?"
    return f"{callee} takes no argument `{name}`: " + (f"by name it takes {_listed(known)}" if known else "it takes none by name")


def explain(function: object, message: str, positional: list[object], named: dict[str, object]) -> str | None:
    """One line; None where nanobind's message, which holds the signatures, says it better."""
    overloads = [_parameters(text) for text in _SIGNATURE.findall(message)]
    if not overloads:
        return None
    callee = _callee(function, positional)
    for name in named:
        if not any(one.by_name and one.name in (name, "**") for overload in overloads for one in overload):
            known = dict.fromkeys(one.name for overload in overloads for one in overload if one.by_name and one.name != "self")
            return _unknown(name, list(known), callee)
    if len(overloads) > 1:
        return None
    parameters = overloads[0]
    is_method = bool(parameters) and parameters[0].name == "self"
    places = [one for one in parameters if one.by_position and not one.many]
    if len(positional) > len(places) and not any(one.many for one in parameters):
        most, given = len(places) - is_method, len(positional) - is_method
        behind = [one.name for one in parameters if not one.by_position and one.by_name]
        text = f"{callee} takes {most or 'no'} argument{'' if most == 1 else 's'} by position, {given} were given"
        return text + (f": name {_listed(behind)}" if 0 < len(behind) < 4 else ": name the others" if behind else "")
    given_by_place = dict(zip((one.name for one in places), positional, strict=False))
    for name in named:
        if name in given_by_place:
            return f"{callee} got `{name}` twice, by position and by name"
    values = given_by_place | named
    missing = [one.name for one in parameters if one.required and one.name not in values]
    if missing:
        return f"{callee} needs {_listed(missing)}"
    for one in parameters:
        if one.name != "self" and one.name in values and not one.many and not _fits(values[one.name], one.annotation):
            return f"{callee} takes `{one.name}` as {one.annotation}, not {type(values[one.name]).__name__}"
    beyond = [
        (one.name, value)
        for one in parameters
        if one.annotation.startswith("int") and isinstance(value := values.get(one.name), int) and not 0 <= value < 2**31
    ]
    if len(beyond) == 1:
        return f"{callee} cannot take {beyond[0][1]} as `{beyond[0][0]}`"
    return None
