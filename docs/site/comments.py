#!/usr/bin/env python3
"""Turns the comments of a header into Doxygen's: hooks.py, for script/docs. What it makes of one header: docs/site/comments.py HEADER.

A `//` comment before a declaration becomes `///`, one behind it `///<`, the first of the file tells of the file. Comments in bodies of
functions, and those that stand before nothing, stay. Further rules:

- Overloads that follow without a blank line, and have no comment, share the comment before them.
- A comment before several data members tells of all of them, when it ends with a colon or the first has a comment behind it: a heading.
- Indented lines of a comment are code.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

COMMENT = re.compile(r"^(?P<indent> *)//(?!/)(?P<text>.*)$")
NOT_PROSE = re.compile(r"^\s*(NOLINT|clang-format |IWYU )")
TYPE = re.compile(r"^(?:inline\s+|extern\s+\"C\"\s*|friend\s+)*(?P<kind>namespace|class|struct|union|enum|extern)\b")
STRING = r'R"(?P<delimiter>[^(\s]*)\(.*?\)(?P=delimiter)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])*\''
# Comments hide quotes and strings hide slashes: the one that begins first counts.
TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|" + STRING, re.DOTALL)
NOTHING_FOLLOWS = re.compile(r"\s*(\}|public:|private:|protected:|$|#\s*(pragma|endif|include))")


@dataclass
class Line:
    """A line of the header, and where it stands."""

    text: str
    code: str  # without comment; strings blanked out
    comment_at: int  # where its comment begins, or -1
    declares: bool = False  # it begins a declaration, or stands between two
    ends: bool = False  # a declaration, or an enumerator, ends on it
    scope: str = ""  # what it stands in: "namespace", "type", "enum", "body"


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "_", match[0])


def read_lines(text: str) -> list[Line]:
    """Splits the text and finds, for each line, the kind of scope that it stands in."""
    pieces, at = [], 0
    for match in TOKEN.finditer(text):
        pieces.append(text[at : match.start()])
        pieces.append(match[0] if match[0].startswith("/") else blank(match))
        at = match.end()
    plain = "".join([*pieces, text[at:]])

    lines, scopes, statement, parens, continued = [], ["namespace"], "", 0, False
    for full, code in zip(text.split("\n"), plain.split("\n"), strict=True):
        comment_at = code.find("//")
        if comment_at >= 0:
            code = code[:comment_at]
        line = Line(full, code, comment_at, scope=scopes[-1])
        line.declares = not statement.strip() and parens == 0
        if continued or code.lstrip().startswith("#"):  # a directive
            continued = code.rstrip().endswith("\\")
            line.ends = line.declares and not continued
            lines.append(line)
            continue
        for letter in code + "\n":
            if letter in "([":
                parens += 1
            elif letter in ")]":
                parens -= 1
            if parens != 0:
                statement += letter
            elif letter == "{":
                found = TYPE.match(re.sub(r"^(template\s*<[^{]*>\s*)?(requires\s*\(.*?\)\s*)?", "", statement.strip(), flags=re.DOTALL))
                kind = "body"
                if scopes[-1] in ("namespace", "type") and found and "(" not in re.sub(r"alignas\([^)]*\)", "", statement):
                    kind = {"namespace": "namespace", "extern": "namespace", "enum": "enum"}.get(found["kind"], "type")
                scopes.append(kind)
                statement = statement + " " if kind == "body" else ""
            elif letter == "}":
                kind = scopes.pop()
                if kind == "body":
                    # The end of a function; of an initializer, a semicolon or comma follows.
                    line.ends = line.ends or scopes[-1] != "body"
                    statement = "" if ")" in statement and scopes[-1] in ("namespace", "type") else statement
                else:
                    statement = ""
            elif letter == ";" or (letter == "," and scopes[-1] == "enum"):
                line.ends = line.ends or scopes[-1] != "body"
                if scopes[-1] != "body":
                    statement = ""
            elif letter == ":" and statement.strip() in ("public", "protected", "private"):
                statement = ""
            else:
                statement += letter
        if scopes[-1] == "enum" and line.scope == "enum" and code.strip():
            line.ends = True  # the last enumerator has no comma
            statement = ""
        lines.append(line)
    return lines


def is_comment(line: Line) -> bool:
    return line.comment_at >= 0 and not line.code.strip() and line.scope != "body" and line.declares


def escape(text: str) -> str:
    """Takes their meaning from Doxygen's special characters, but for code between backticks, and makes references of Class::member."""
    parts = re.split(r"(`[^`]*`|\"[^\"\n]*\")", text)
    for i in range(0, len(parts), 2):
        plain = re.sub(r"[\\@&$#<>%*\[\]]", r"\\\g<0>", parts[i])
        plain = re.sub(r"(?<![\w:])(?:dwell::)?((?:(?!Operator\b)[A-Z]\w*|errc|status)(?:::[~\w]+)+)", r'\\ref dwell::\1 "\1"', plain)
        parts[i] = plain.replace(".. ", "..&nbsp;")  # no sentence ends there
    return "".join(parts)


def prose_of(texts: list[str]) -> list[str]:
    """The lines of a comment for Doxygen. Lines that are indented by two or more are code, until one that is not."""
    out: list[str] = []
    code = False
    joined: list[str] = []

    def flush() -> None:
        if joined:
            out.extend(escape("\n".join(joined)).split("\n"))
            joined.clear()

    for i, text in enumerate(texts):
        rest = [t for t in texts[i:] if t.strip()]
        indented = len(text) - len(text.lstrip()) >= 3 or (code and not text.strip() and bool(rest) and rest[0].startswith("   "))
        if indented and not code:
            flush()
            out.append("@code{.cpp}")
        if code and not indented:
            out.append("@endcode")
        code = indented
        if code:
            out.append(text[3:])
        else:
            joined.append(text[1:] if text.startswith(" ") else text)
    flush()
    if code:
        out.append("@endcode")
    return out


def name_of(lines: list[Line], first: int) -> str:
    """The name of the function whose declaration begins on this line, or nothing."""
    text = ""
    for line in lines[first:]:
        text += " " + line.code
        if line.ends or "{" in line.code:
            break
    text = re.sub(r"^\s*template\s*<.*?>\s*(?=[A-Zvcbus\[D])", "", text)
    if "= delete" in text or "= default" in text:
        return ""
    text = re.sub(r"\b(?:requires|alignas|decltype|noexcept|explicit)\s*\([^)]*\)", "", text)
    found = re.search(r"(operator[^\s\w(]+|[~\w]+)\s*\(", text)
    return found[1] if found else ""


def followers(lines: list[Line], first: int) -> list[int]:
    """Where declarations begin that stand below this one without a blank line or a comment between."""
    found, inside = [], lines[first].scope
    ended = False
    for i in range(first, len(lines)):
        line = lines[i]
        if line.scope == inside and line.declares and i > first:
            if not line.text.strip() or is_comment(line) or re.match(r"\s*(\}|public:|private:|protected:|friend\b|#)", line.code):
                break
            if ended:
                found.append(i)
                ended = False
        ended = ended or (line.ends and (i + 1 == len(lines) or lines[i + 1].declares))
    return found


def filtered(text: str) -> str:
    lines = read_lines(text)
    out: list[str] = []
    shared: dict[int, list[str]] = {}  # comments to repeat before a line
    group: str | None = None  # the indentation of the heading whose members come
    i = 0
    seen_file = False
    trailing_at = -1
    while i < len(lines):
        line = lines[i]
        if group is not None and line.declares and re.match(r"\s*(\}|public:|private:|protected:|friend\b|$)", line.text):
            out.append(f"{group}/// @}}")
            group = None
        if is_comment(line) and NOT_PROSE.match(line.text[line.comment_at + 2 :]):
            out.append("")
        elif is_comment(line):
            begin, pad = i, line.text[: line.comment_at]
            while i < len(lines) and is_comment(lines[i]) and lines[i].comment_at == line.comment_at:
                i += 1
            texts = [lines[k].text[line.comment_at + 2 :] for k in range(begin, i)]
            texts = [t for t in texts if not NOT_PROSE.match(t)]
            prose = prose_of(texts)
            i -= 1
            if trailing_at == line.comment_at:  # goes on what stands behind the declaration above
                out += [f"{pad}///< {t}" for t in prose]
            elif not seen_file and begin == 0:
                out += ["/// @file", *(f"/// {t}" for t in prose), "///"]
                seen_file = True
            else:
                after = i + 1
                while after < len(lines) and re.match(r"\s*#\s*(?!define|pragma|endif|include)", lines[after].code):
                    after += 1
                below = lines[after] if after < len(lines) else None
                heads_enumerators = below is not None and below.scope == "enum" and below.comment_at >= 0
                if below is None or heads_enumerators or NOTHING_FOLLOWS.match(below.code):
                    out += [lines[k].text for k in range(begin, i + 1)]
                else:
                    macro = next((m for m in (re.match(r"\s*#\s*define (\w+)", k.code) for k in lines[i + 1 : after + 1]) if m), None)
                    name = name_of(lines, after)
                    data = below.scope == "type" and below.ends and not name and not re.search(r"\b(enum|static|using)\b", below.code)
                    title = " ".join(prose)
                    short = title.endswith(":") or len(title.split()) <= 4
                    if macro:
                        out += [f"{pad}/// @def {macro[1]}", *(f"{pad}/// {t}".rstrip() for t in prose)]
                    elif data and (below.comment_at >= 0 or (short and followers(lines, after))):
                        if group is not None:
                            out.append(f"{pad}/// @}}")
                        title, _, rest = title.partition(". ")
                        title = re.sub(r'\\ref \S+ "([^"]*)"', r"\1", title)  # none there
                        out += [f"{pad}/// @name {title.rstrip('.:')}", *([f"{pad}/// {rest}"] if rest else []), f"{pad}/// @{{"]
                        group = pad
                    else:
                        block = [f"{pad}/// {t}".rstrip() for t in prose]
                        if below.scope in ("namespace", "type") and name:
                            for k in followers(lines, after):
                                if name_of(lines, k) == name and lines[k].comment_at < 0:
                                    shared[k] = block
                        out += block
        else:
            out += shared.get(i, [])
            if (
                line.comment_at >= 0
                and line.ends
                and line.scope != "body"
                and line.code.strip() not in ("}", "};")
                and not line.code.lstrip().startswith(("#", "}"))
                and not NOT_PROSE.match(line.text[line.comment_at + 2 :])
                and not line.text.startswith("///", line.comment_at)
            ):
                comment = escape(line.text[line.comment_at + 2 :].strip())
                out.append(f"{line.text[: line.comment_at]}///< {comment}")
                trailing_at = line.comment_at
                i += 1
                continue
            out.append(line.text)
        trailing_at = -1 if not is_comment(line) else trailing_at
        i += 1
    # With a blank behind it, Doxygen takes the name for the keyword of another language.
    return re.sub(r"\bexception =", "exception=", "\n".join(out))


if __name__ == "__main__":
    sys.stdout.write(filtered(Path(sys.argv[1]).read_text(encoding="utf-8")))
