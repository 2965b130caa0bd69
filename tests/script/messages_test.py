#!/usr/bin/env python3
"""Checks that messages of the library read well in both languages: users of Python see them too, and there nothing is called Runtime::sync.

    tests/script/messages_test.py [ARGUMENT OF unittest...]

What operators call (Group::then) is C++ in both, and so are classes that Python does not have (Orchestrator, Image).
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

NAMED = re.compile(
    r"\b(?:BufferView|Buffer|Close|Definition|ElementType|Graph|GraphExec|Memory|Module|Node|Operator|Options|Parts|Runtime|RuntimeInfo"
    r"|SubGraph|Ticket|Tier)::[a-z]\w*"
    r"|\bdwell::(?:after|gang|groups|link|priority|repeat)\b"
    r"|\bOptions\{|\b(?:after|gang|groups|link|priority|repeat)\((?:n|)\)"
)
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# ErrorFields::which of an option is the name of C++.
FIELD = re.compile(r'"option", $')


def cpp_names_in(text: str) -> list[str]:
    """The literals of a source that name what C++ alone has."""
    found = []
    for line in text.splitlines():
        if line.lstrip().startswith(("//", "#include")):
            continue
        for literal in LITERAL.finditer(line):
            if NAMED.search(literal.group()) and not FIELD.search(line[: literal.start()]):
                found.append(literal.group())
    return found


class Messages(unittest.TestCase):
    def test_a_name_of_cpp_is_found(self):
        self.assertEqual(cpp_names_in('throw Error("use Operator::redefine");'), ['"use Operator::redefine"'])
        self.assertEqual(cpp_names_in('throw Error("give repeat(n)");'), ['"give repeat(n)"'])
        self.assertEqual(cpp_names_in('// "Runtime::sync"\n{"option", "Options::lease"}; "Group::then"; "CompileOptions::arch"'), [])

    def test_messages_have_words_of_both_languages(self):
        files = [*ROOT.glob("src/**/*.[ch]pp"), *ROOT.glob("python/src/*.[ch]pp")]
        self.assertGreater(len(files), 100)
        for file in files:
            name = str(file.relative_to(ROOT))
            if name.endswith(".test.cpp") or name.startswith("src/orchestrator/"):
                continue
            with self.subTest(name):
                self.assertEqual(cpp_names_in(file.read_text()), [])


if __name__ == "__main__":
    unittest.main()
