#!/usr/bin/env python3
"""Runs clang-tidy over sources, in batches where that loses nothing.

usage: script/tidy.py BUILD FILE...     BUILD holds compile_commands.json; a source that it does not list is passed over

A check walks through everything that a source includes, most of which is the standard library. So sources with the same flags are checked
together, as one source that includes them. Two sources of which one defines a local name that the other mentions go to different batches.
When a batch has a finding, its sources are checked one by one, and only those findings count. That each source includes what it uses is
not checked here: the release build compiles the library's sources without precompiled headers.

misc-unused-using-decls and misc-unused-alias-decls pass over included sources; a search for the name stands in for them.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

BATCH = 24


def flags_of(entry):
    """The command without what names the source and its outputs."""
    words = shlex.split(entry["command"])[1:]
    kept, skip = [], False
    for word in words:
        if skip or word in ("-c", entry["file"]):
            skip = False
        elif word == "-o":
            skip = True
        else:
            kept.append(word)
    return kept


def local_names(text):
    """What a source defines in unnamed namespaces: name -> None, or the definition where it may be repeated word for word."""
    names = {}
    for block in re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.MULTILINE | re.DOTALL):
        for line in re.sub(r"^template <.*>\s*", "", block, flags=re.MULTILINE).splitlines():
            alias = re.match(r"(?:using|namespace) (\w+) = ", line)
            found = alias or re.match(r"(?!using |TEST|[A-Z_]+\()\w[^=({;]*?(\w+)(?:\[\w*\])?(?: final)?(?: :.*)?\s*[=({;]", line)
            if found:
                names[found[1]] = line if alias else None
    return names


class Source:
    """What decides which sources go together."""

    def __init__(self, entry):
        self.entry = entry
        text = pathlib.Path(entry["file"]).read_text(encoding="utf-8")
        self.names = local_names(text)
        code = re.sub(r'//.*|"(?:[^"\\\n]|\\.)*"', "", text)
        # Functions are called; types, constants and aliases are named. A variable of a function may have the name of another's function.
        called = re.findall(r"(?<![.\w])(?<!->)(?<!::)([A-Za-z_]\w*)(?=[(<{])", code)
        named = re.findall(r"(?<![.\w])(?<!->)(?<!::)(?:[A-Z]\w*|k[A-Z]\w*|[a-z]\w*(?=::))", code)
        self.mentions = {*called, *named, *self.names}

    def shadows(self, other):
        """Whether a local name of this source means another thing in `other`."""
        return any(name in other.mentions and (line is None or other.names.get(name) != line) for name, line in self.names.items())


def batches_of(entries):
    """Lists of entries to be checked together, the largest first."""
    alike, batches = {}, []
    for entry in entries:
        alike.setdefault(tuple(flags_of(entry)), []).append(entry)
    for group in alike.values():
        own = [[] for _ in range(-(-len(group) // BATCH))]
        for source in map(Source, group):
            fitting = [one for one in own if not any(source.shadows(other) or other.shadows(source) for other in one)]
            if not fitting:
                own.append([source])
            else:
                min(fitting, key=len).append(source)
        batches += [[source.entry for source in one] for one in own if one]
    return sorted(batches, key=len, reverse=True)


def tidy(build, source, *options):
    """(passed, what to show)"""
    command = ["clang-tidy", "--quiet", "--warnings-as-errors=*", "-p", build, *options, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    noise = ("warnings generated", "Suppressed ", "Use -header-filter")
    errors = [line for line in done.stderr.splitlines() if not any(word in line for word in noise)]
    return done.returncode == 0, "\n".join([*done.stdout.splitlines(), *errors])


def has_unused_name(path):
    """Whether a using declaration or a namespace alias of the source names what the rest of it never mentions."""
    text = re.sub(r"^#.*", "", pathlib.Path(path).read_text(encoding="utf-8"), flags=re.MULTILINE)
    names = re.findall(r"^\s*(?:using (?:\w*::)+(\w+);|namespace (\w+) = )", text, re.MULTILINE)
    return any(len(re.findall(rf"\b{using or alias}\b", text)) == 1 for using, alias in names)


def check(batch, folder, build):
    if len(batch) > 1 and not any(has_unused_name(entry["file"]) for entry in batch):
        passed, _ = tidy(str(folder), str(folder / batch[0]["batch"]), "--checks=-bugprone-suspicious-include")
        if passed:
            return True, ""
    results = [tidy(build, entry["file"]) for entry in batch]
    return all(passed for passed, _ in results), "\n".join(text for _, text in results if text)


def main():
    build, names = sys.argv[1], {os.path.realpath(name) for name in sys.argv[2:]}
    folder = pathlib.Path(build).resolve() / "tidy"
    folder.mkdir(exist_ok=True)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {entry["file"]: entry for entry in json.load(file)}
    batches = batches_of([entry for name, entry in sorted(entries.items()) if name in names])
    commands = []
    for number, batch in enumerate(batches):
        if len(batch) == 1:
            continue
        source = folder / f"batch_{number}.cpp"
        lines = (f'#define main main_{at}\n#include "{entry["file"]}"\n#undef main\n' for at, entry in enumerate(batch))
        source.write_text("".join(lines), encoding="utf-8")
        for entry in batch:
            entry["batch"] = source.name
        command = shlex.join(["c++", *flags_of(batch[0]), "-c", str(source)])
        commands.append({"directory": batch[0]["directory"], "command": command, "file": str(source)})
    (folder / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")

    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for passed, text in pool.map(lambda batch: check(batch, folder, build), batches):
            failed |= not passed
            if text:
                print(text, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
