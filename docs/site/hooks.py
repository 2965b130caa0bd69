"""The pages of the site, for MkDocs: those of the project where they lie, its examples, and the references of both languages.

Links lead where they lead in the project's folder: to a page, to the page of a header in Doxygen's part, or to the text of a source.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parent))  # MkDocs runs this file by its path

import comments

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/adr/*.md"),
    *("bench/README.md", "bench/results/README.md", "tests/model/README.md"),
)
ASSETS = ("docs/img/*", "docs/grafana/*")
EXAMPLES = ("examples/*.cpp", "python/examples/*.py")
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".py": "python"}
LINK = re.compile(  # or code, which has none
    r"^```.*?^```|(?P<text>!?\[[^\]]*\])\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)|`[^`\n]*`", re.MULTILINE | re.DOTALL
)


def glob(*patterns: str) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


# ---- The C++ reference -------------------------------------------------------------------------------------------------------


def headers() -> list[str]:
    """The public headers: those of the host, and those of operators that these and dwell/device.hpp include."""
    host = glob("include/dwell/*.hpp")
    named = {name for path in host for name in re.findall(r"#include <(dwell/device/\w+\.hpp)>", text_of(path))}
    return host + [f"include/{name}" for name in sorted(named)]


def build_doxygen() -> None:
    """Writes build/doxygen/html and dwell.tag. What Doxygen warns of is an error."""
    build = ROOT / "build/doxygen"
    shutil.rmtree(build, ignore_errors=True)
    for path in headers():
        to = build / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(comments.filtered(text_of(path)), encoding="utf-8")
    (build / "include/main.hpp").write_text('/// @mainpage The C++ interface\n/// <a href="../reference/cpp.html">All headers</a>\n')
    if subprocess.run(["doxygen", "docs/site/Doxyfile"], cwd=ROOT).returncode != 0:
        sys.exit("dwell: Doxygen refuses comments of the headers; its lines count in build/doxygen/include")


def doxygen_pages() -> dict[str, str]:
    """From the path of a header to that of its page."""
    build = ROOT / "build/doxygen"
    files = ElementTree.parse(build / "dwell.tag").getroot().iterfind("compound[@kind='file']")
    return {posixpath.relpath(f"{c.findtext('path')}{c.findtext('name')}", build): f"cpp/{c.findtext('filename')}" for c in files}


def first_comment(path: str) -> str:
    """The first sentences of a file, which tell of it: up to the end of the paragraph."""
    text = text_of(path)
    if path.endswith(".py"):
        return (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].replace("\n", " ")
    lines = []
    for line in text.splitlines():
        if not line.startswith("// "):
            break
        lines.append(line[3:])
    return re.split(r"(?<=[.:]) (?=[A-Z])|: ?$", " ".join(lines), maxsplit=1)[0]


def cpp_reference(pages: dict[str, str]) -> str:
    included = [f"include/{name}" for name in re.findall(r"#include <(dwell/\w+\.hpp)>", text_of("include/dwell/dwell.hpp"))]
    public = headers()
    host = [path for path in public if path.count("/") == 2]
    groups = {
        "For programs": ["include/dwell/dwell.hpp", *included],
        "Not part of dwell.hpp": [p for p in host if p not in included and Path(p).name not in ("dwell.hpp", "device.hpp")],
        "For operators": ["include/dwell/device.hpp", *(p for p in public if p.count("/") == 3)],
    }
    text = "# C++\n\nA program includes `dwell/dwell.hpp`; an operator has `dwell/device.hpp` without asking for it.\n"
    text += "[All classes](../cpp/annotated.html), [all names](../cpp/namespacedwell.html).\n"
    for title, paths in groups.items():
        text += f"\n## {title}\n\n| header | |\n|---|---|\n"
        for path in paths:
            text += f"| [{path.removeprefix('include/dwell/')}](../{pages[path]}) | {first_comment(path).replace('|', chr(92) + '|')} |\n"
    return text


# ---- The Python reference ----------------------------------------------------------------------------------------------------


def exported(path: str) -> list[str]:
    """The names of a module's `__all__`."""
    for node in ast.parse(text_of(path)).body:
        if isinstance(node, ast.Assign | ast.AugAssign) and isinstance(node.value, ast.List):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return [element.value for element in node.value.elts if isinstance(element, ast.Constant)]
    return []


def python_names() -> dict[str, list[str]]:
    """The public names of the package by page: a class has one of its own, functions and errors share one."""
    errors = {node.name for node in ast.parse(text_of("python/dwell/_errors.py")).body if isinstance(node, ast.ClassDef)}
    classes = {
        node.name
        for path in glob("python/dwell/*.py", "python/dwell/*.pyi")
        for node in ast.parse(text_of(path)).body
        if isinstance(node, ast.ClassDef)
    }
    names = [n for n in exported("python/dwell/__init__.py") if not n.startswith("__")]
    names += exported("python/dwell/_functions.py")
    pages: dict[str, list[str]] = {name: [name] for name in sorted(set(names) & classes - errors)}
    pages["functions"] = sorted({name for name in names if name not in classes})
    pages["errors"] = sorted(set(names) & errors)
    pages["torch"] = [f"torch.{name}" for name in exported("python/dwell/torch/__init__.py")]
    return pages


TITLES = {"functions": "Functions", "errors": "Errors", "torch": "dwell.torch"}


def python_reference() -> dict[str, str]:
    """The pages, by path."""
    summaries = {
        node.name: re.split(r"(?<=\.)\s|\n\n", (ast.get_docstring(node) or "").replace("|", "\\|"))[0].replace("\n", " ")
        for path in glob("python/dwell/*.py", "python/dwell/*.pyi")
        for node in ast.parse(text_of(path)).body
        if isinstance(node, ast.ClassDef)
    }
    result = {}
    index = "# Python\n\n::: dwell\n    options:\n      members: false\n      show_root_heading: false\n\n| | |\n|---|---|\n"
    for page, names in python_names().items():
        title = TITLES.get(page, page)
        if page == "torch":
            members = "".join(f"        - {name.removeprefix('torch.')}\n" for name in names)
            text = f"# {title}\n\n::: dwell.torch\n    options:\n      show_root_heading: false\n      members:\n{members}"
        elif page in TITLES:
            text = f"# {title}\n\n" + "\n".join(f"::: dwell.{name}\n" for name in names)
        else:
            text = f"::: dwell.{page}\n    options:\n      heading_level: 1\n"
        result[f"reference/python/{page}.md"] = f"---\ntitle: {title}\n---\n{text}"
        listed = ", ".join(f"[{n}]({page}.md#dwell.{n})" for n in names) if page in TITLES else summaries.get(page, "")
        index += f"| [{title}]({page}.md) | {listed} |\n"
    return {"reference/python/index.md": index, **result}


# ---- Pages -------------------------------------------------------------------------------------------------------------------


def mended(text: str) -> str:
    """GitHub's Markdown as Python's reads it: a list needs a blank line before it, and a table in a list four blanks."""
    lines: list[str] = []
    fence = False
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence:
            item = re.match(r"(-|\d+\.) ", line)
            if item and before.strip() and not re.match(r"((-|\d+\.) |\s|#)", before):
                lines.append("")
            line = re.sub(r"^   ?(?=\|)", "    ", line)
        lines.append(line)
    return "\n".join(lines)


def links(path: str) -> list[str]:
    """The paths in the project to which a page links."""
    found: list[str] = []
    for match in LINK.finditer(text_of(path)):
        if match["target"] and ":" not in match["target"]:
            found.append(posixpath.normpath(posixpath.join(posixpath.dirname(path), match["target"])))
    return found


def source_page(path: str) -> str:
    return f"# {Path(path).name}\n\n{first_comment(path)}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text_of(path)}````\n"


def generated() -> dict[str, str]:
    """The pages that are made, by path, but for those that need Doxygen's output."""
    pages = python_reference()
    sources = set(glob(*EXAMPLES))
    known = {*glob(*PAGES, *ASSETS), *headers()}
    for page in glob(*PAGES):
        sources |= {path for path in links(page) if (ROOT / path).is_file() and path not in known}
    for path in sorted(sources):
        pages[f"{path}.md"] = source_page(path)
    listed = "".join(f"| [{Path(p).name}]({posixpath.relpath(p, 'examples')}.md) | {first_comment(p)} |\n" for p in glob(*EXAMPLES))
    pages["examples/index.md"] = f"# Examples\n\n| | |\n|---|---|\n{listed}"
    decisions = "".join(f"- [{text_of(p).splitlines()[0][2:].replace('. ', ': ', 1)}]({Path(p).name})\n" for p in glob("docs/adr/*.md"))
    pages["docs/adr/index.md"] = f"# Decisions\n\nThe decisions that shaped dwell, with what was measured.\n\n{decisions}"
    return pages


def navigation(nav: list[Any], pages: list[str]) -> list[Any]:
    """Puts the pages below a folder where its name stands with a slash, the index first; `examples/` has those of both languages."""
    result: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            [(title, value)] = entry.items()
            if isinstance(value, list):
                value = navigation(value, pages)
            elif value.endswith("/"):
                inside = [p for p in pages if p.startswith(value) or (value == "examples/" and p.startswith("python/examples/"))]
                value = sorted(inside, key=lambda p: not p.endswith("index.md"))
            entry = {title: value}
        result.append(entry)
    return result


# ---- MkDocs' events ------------------------------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    build_doxygen()
    made = generated()
    config.nav = navigation(config.nav, [*glob(*PAGES), *made])
    linked = [{"Sources": sorted(p for p in made if not re.match(r"(reference|examples|docs|python)/", p))}]
    for entry in config.nav:
        if "Develop" in entry:
            entry["Develop"] += linked
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path in glob(*PAGES, *ASSETS):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for path, text in {**generated(), "reference/cpp.md": cpp_reference(doxygen_pages())}.items():
        files.append(File.generated(config, path, content=text))
    html = ROOT / "build/doxygen/html"
    for path in sorted(html.rglob("*")):
        if path.is_file():
            files.append(File.generated(config, f"cpp/{path.relative_to(html).as_posix()}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    here = posixpath.dirname(page.file.src_uri)
    references = doxygen_pages()

    def relinked(match: re.Match[str]) -> str:
        target = match["target"]
        if target is None or ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(here, target))
        if files.get_file_from_path(path):
            return match[0]
        to = next((p for p in (f"{path}.md", f"{path}/index.md", references.get(path, "")) if p and files.get_file_from_path(p)), None)
        return match[0] if to is None else f"{match['text']}({posixpath.relpath(to, here or '.')}{match['anchor'] or ''})"

    return LINK.sub(relinked, mended(markdown))
