#!/usr/bin/env python3
"""Runs clang-tidy over sources, in batches where that loses nothing.

usage: script/tidy.py BUILD FILE...     BUILD holds compile_commands.json; a source that it does not list is passed over

A check walks through everything that a source includes. In a test, that is nearly all the standard library and GoogleMock. So tests,
tools and benchmarks with the same flags are checked together, as one source that includes them. When a batch has a finding, its sources are
checked one by one, and only those findings count: two sources of a batch may define the same name. The library's sources are always checked
one by one, which also proves that each includes what it uses.

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

BATCH = 8


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


def batches_of(entries, root):
    """Lists of entries to be checked together, the largest first."""
    alike, batches = {}, []
    for entry in entries:
        path = pathlib.Path(entry["file"]).relative_to(root)
        if path.parts[0] == "src" and not path.name.endswith(".test.cpp"):
            batches.append([entry])
        else:
            alike.setdefault(tuple(flags_of(entry)), []).append(entry)
    for group in alike.values():
        count = -(-len(group) // BATCH)
        batches += [group[i::count] for i in range(count)]
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
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(build).resolve() / "tidy"
    folder.mkdir(exist_ok=True)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = {entry["file"]: entry for entry in json.load(file)}
    batches = batches_of([entry for name, entry in sorted(entries.items()) if name in names], root)
    commands = []
    for number, batch in enumerate(batches):
        if len(batch) == 1:
            continue
        source = folder / f"batch_{number}.cpp"
        source.write_text("".join(f'#include "{entry["file"]}"\n' for entry in batch), encoding="utf-8")
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
