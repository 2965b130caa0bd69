#!/usr/bin/env python3
"""Runs clang-tidy over sources, in batches where that misses nothing.

usage: script/tidy.py BUILD FILE...     BUILD contains compile_commands.json; sources that it does not list are skipped

A check reads everything that a source includes, most of it the standard library. So sources are checked together, as one source that
includes them, with all their definitions and folders. Two sources go to different batches if their flags contradict, or if one defines a
local name that the other mentions.
If a batch has findings, the sources with findings are checked one by one, and only these findings count; the others are checked together
again. Missing includes are not found here: a build without DWELL_UNITY shows them.
Passed checks are recorded in ~/.cache/dwell-tidy ($XDG_CACHE_HOME), by a hash of all that a check reads, and not repeated.

misc-unused-using-decls and misc-unused-alias-decls skip included sources; a search for the name replaces them.
"""

import concurrent.futures
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

BATCH = 64
ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSED = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "dwell-tidy"
KEPT = 30 * 24 * 3600  # seconds after the last use of a record
OF_THE_CODE = re.compile(r"-O\d?$|-f(PI[CE]|visibility=|(no-)?stack-protector|(function|data)-sections)")  # irrelevant to checks


def flags_of(entry):
    """The flags that a check depends on: definitions, as name -> value; folders, each with its option; others."""
    words = iter(shlex.split(entry["command"])[1:])
    defines, folders, others = {}, [], []
    for word in words:
        if word == "-o":
            next(words)
        elif word == "-isystem":
            folders.append((word, next(words)))
        elif word.startswith("-I"):
            folders.append(("-I", word[2:]))
        elif word.startswith("-D"):
            name, _, value = word[2:].partition("=")
            defines[name] = value
        elif word not in ("-c", entry["file"]) and not OF_THE_CODE.match(word):
            others.append(word)
    return defines, folders, others


class Batch:
    """Sources that are checked together."""

    def __init__(self, source):
        self.sources = [source]
        self.defines, self.folders, self.others = (part.copy() for part in source.flags)

    def fits(self, source):
        defines, _, others = source.flags
        if len(self.sources) == BATCH or others != self.others:
            return False
        if any(self.defines.get(name, value) != value for name, value in defines.items()):
            return False
        return not any(source.shadows(other) or other.shadows(source) for other in self.sources)

    def add(self, source):
        defines, folders, _ = source.flags
        self.sources.append(source)
        self.defines |= defines
        self.folders += [folder for folder in folders if folder not in self.folders]

    def flags(self):
        defines = [f"-D{name}={value}" for name, value in self.defines.items()]
        return [*self.others, *defines, *(word for folder in self.folders for word in folder)]


def local_names(text):
    """The definitions of a source in unnamed namespaces: name -> None, or the definition if it may be repeated verbatim."""
    names = {}
    for block in re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.MULTILINE | re.DOTALL):
        for line in re.sub(r"^template <.*>\s*", "", block, flags=re.MULTILINE).splitlines():
            alias = re.match(r"(?:using|namespace) (\w+) = ", line)
            found = alias or re.match(r"(?!using |TEST|[A-Z_]+\()\w[^=({;]*?(\w+)(?:\[\w*\])?(?: final)?(?: :.*)?\s*[=({;]", line)
            if found:
                names[found[1]] = line if alias else None
    return names


class Source:
    """The properties that decide which sources go together."""

    def __init__(self, entry):
        self.entry = entry
        self.flags = flags_of(entry)
        text = pathlib.Path(entry["file"]).read_text(encoding="utf-8")
        self.names = local_names(text)
        code = re.sub(r'//.*|"(?:[^"\\\n]|\\.)*"', "", text)
        # Count calls of functions, and mentions of types, constants and aliases: a local variable may have a function's name.
        called = re.findall(r"(?<![.\w])(?<!->)(?<!::)([A-Za-z_]\w*)(?=[(<{])", code)
        named = re.findall(r"(?<![.\w])(?<!->)(?<!::)(?:[A-Z]\w*|k[A-Z]\w*|[a-z]\w*(?=::))", code)
        self.mentions = {*called, *named, *self.names}

    def shadows(self, other):
        """Whether a local name of this source has another meaning in `other`."""
        return any(name in other.mentions and (line is None or other.names.get(name) != line) for name, line in self.names.items())


def batches_of(entries):
    """Batches of all entries. The largest entry goes first, to the fullest batch that fits."""
    batches = []
    for source in map(Source, entries):
        fitting = [batch for batch in batches if batch.fits(source)]
        if fitting:
            max(fitting, key=lambda batch: len(batch.sources)).add(source)
        else:
            batches.append(Batch(source))
    return sorted(batches, key=lambda batch: len(batch.sources), reverse=True)


@functools.cache
def version():
    return subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout


def note_of(entry, options):
    """The file that records that `entry` has passed. Its name is a hash of clang-tidy, its configuration, and the preprocessed text with
    comments and macros. None if records cannot be kept, or if clang++ is missing or cannot read the source."""
    if not os.access(PASSED, os.W_OK):
        return None
    words = iter(shlex.split(entry["command"])[1:])
    flags = [word for word in words if word not in ("-c", entry["file"]) and not (word == "-o" and next(words))]
    command = ["clang++", "-w", *flags, "-E", "-C", "-dD", entry["file"]]
    try:
        text = subprocess.run(command, capture_output=True, check=True, cwd=entry["directory"]).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    parts = (version(), (ROOT / ".clang-tidy").read_bytes(), shlex.join(options).encode(), text.replace(str(ROOT).encode(), b""))
    return PASSED / hashlib.sha256(b"\0".join(parts)).hexdigest()


def open_notes():
    """Makes the folder of records if possible, and removes old ones."""
    with contextlib.suppress(OSError):
        PASSED.mkdir(parents=True, exist_ok=True)
    for note in PASSED.glob("*"):
        if note.stat().st_mtime < time.time() - KEPT:
            note.unlink(missing_ok=True)


def tidy(build, entry, *options):
    """(passed, output)"""
    note = note_of(entry, options)
    if note and note.exists():
        note.touch()
        return True, ""
    command = ["clang-tidy", "--quiet", "--warnings-as-errors=*", "-p", build, *options, entry["file"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    noise = ("warnings generated", "Suppressed ", "Use -header-filter")
    errors = [line for line in done.stderr.splitlines() if not any(word in line for word in noise)]
    text = "\n".join([*done.stdout.splitlines(), *errors])
    if note and done.returncode == 0 and not text:
        note.touch()
    return done.returncode == 0, text


def has_unused_name(path):
    """Whether a using declaration or a namespace alias of the source is unused."""
    text = re.sub(r"^#.*", "", pathlib.Path(path).read_text(encoding="utf-8"), flags=re.MULTILINE)
    names = re.findall(r"^\s*(?:using (?:\w*::)+(\w+);|namespace (\w+) = )", text, re.MULTILINE)
    return any(len(re.findall(rf"\b{using or alias}\b", text)) == 1 for using, alias in names)


def write_together(path, files):
    lines = (f'#define main main_{at}\n#include "{file}"\n#undef main\n' for at, file in enumerate(files))
    path.write_text("".join(lines), encoding="utf-8")


def check(batch, together, build):
    """(passed, output). `together`: the source that includes the batch; None for a single source."""
    files = [source.entry["file"] for source in batch.sources]
    apart = [file for file in files if has_unused_name(file)] if together else files
    while len(apart) < len(files):
        rest = [file for file in files if file not in apart]
        write_together(pathlib.Path(together["file"]), rest)
        passed, text = tidy(os.path.dirname(together["file"]), together, "--checks=-bugprone-suspicious-include")
        if passed:
            break
        found = {match[1] for match in re.finditer(r"^(/[^:\n]+):\d+:\d+: ", text, re.MULTILINE)}
        apart += [file for file in rest if file in found] or rest
    results = [tidy(build, source.entry) for source in batch.sources if source.entry["file"] in apart]
    return all(passed for passed, _ in results), "\n".join(text for _, text in results if text)


def main():
    build, names = sys.argv[1], {os.path.realpath(name) for name in sys.argv[2:]}
    folder = pathlib.Path(build).resolve() / "tidy"
    folder.mkdir(exist_ok=True)
    open_notes()
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {entry["file"]: entry for entry in json.load(file)}
    batches = batches_of([entry for name, entry in sorted(entries.items()) if name in names])
    commands, work = [], []
    for number, batch in enumerate(batches):
        if len(batch.sources) == 1:
            work.append((batch, None))
            continue
        together = folder / f"batch_{number}.cpp"
        command = shlex.join(["c++", *batch.flags(), "-c", str(together)])
        commands.append({"directory": batch.sources[0].entry["directory"], "command": command, "file": str(together)})
        work.append((batch, commands[-1]))
    (folder / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")

    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for passed, text in pool.map(lambda one: check(*one, build), work):
            failed |= not passed
            if text:
                print(text, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
