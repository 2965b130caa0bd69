#!/usr/bin/env python3
"""The site of docs, as far as it can be checked without its tools: its pages, its references, and what it makes of comments."""

import re
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

ROOT = Path(__file__).parents[2]
sys.dont_write_bytecode = True  # the folder is the source's
sys.path.insert(0, str(ROOT / "docs/site"))

import comments  # noqa: E402
import hooks  # noqa: E402

with mock.patch.dict(sys.modules, griffe=mock.Mock(Extension=object)):
    import docstrings


def navigated() -> list[str]:
    """The entries of the navigation, without YAML: the last word of each line of the list."""
    text = (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    return [line.split()[-1] for line in text.splitlines() if not line.endswith(":")]


class Pages(unittest.TestCase):
    def test_each_is_in_the_navigation_once(self):
        entries = navigated()
        pages = {page for page in hooks.glob(*hooks.PAGES) if not page.startswith("docs/adr/")}
        self.assertEqual(sorted(entry for entry in entries if entry in pages), sorted(pages))
        self.assertIn("docs/adr/", entries)
        self.assertLess(set(hooks.glob("docs/*.md")), pages)

    def test_no_entry_leads_nowhere(self):
        made = hooks.generated()
        for entry in navigated():
            if entry.endswith("/"):
                self.assertTrue(any(page.startswith(entry) for page in made), entry)
            else:
                self.assertIn(entry, {*hooks.glob(*hooks.PAGES), *made, "reference/cpp.md"})

    def test_a_folder_becomes_its_pages_the_index_first(self):
        nav = hooks.navigation([{"A": [{"B": "b/"}, "c.md"]}], ["b/a.md", "b/index.md", "c.md"])
        self.assertEqual(nav, [{"A": [{"B": ["b/index.md", "b/a.md"]}, "c.md"]}])

    def test_links_lead_to_pages_headers_and_sources(self):
        files = {"docs/b.md", "examples/hello.cpp.md", "docs/adr/index.md", "cpp/options_8hpp.html"}
        page = SimpleNamespace(file=SimpleNamespace(src_uri="docs/a.md"))
        known = SimpleNamespace(get_file_from_path=lambda path: path if path in files else None)
        text = "[b](b.md#x) [c](../examples/hello.cpp) [d](adr) [`e`](../include/dwell/options.hpp) `[c](../hello.cpp)` [f](nowhere.md)"
        with mock.patch.object(hooks, "doxygen_pages", lambda: {"include/dwell/options.hpp": "cpp/options_8hpp.html"}):
            result = hooks.on_page_markdown(text, page, None, known)
        self.assertEqual(
            result,
            "[b](b.md#x) [c](../examples/hello.cpp.md) [d](adr/index.md) [`e`](../cpp/options_8hpp.html) `[c](../hello.cpp)` "
            "[f](nowhere.md)",
        )

    def test_lists_and_tables_in_lists_are_read_as_on_github(self):
        self.assertEqual(hooks.mended("Two:\n- a\n  more\n- b"), "Two:\n\n- a\n  more\n- b")
        self.assertEqual(hooks.mended("1. a\n\n   | x |"), "1. a\n\n    | x |")
        self.assertEqual(hooks.mended("```\nTwo:\n- a\n```"), "```\nTwo:\n- a\n```")


class References(unittest.TestCase):
    def test_each_public_header_has_a_row(self):
        listed = hooks.headers()
        self.assertEqual([path for path in listed if path.count("/") == 2], hooks.glob("include/dwell/*.hpp"))
        for name in re.findall(r"#include <(dwell/device/\w+\.hpp)>", hooks.text_of("include/dwell/device.hpp")):
            self.assertIn(f"include/{name}", listed)
        text = hooks.cpp_reference({path: f"cpp/{Path(path).stem}.html" for path in listed})
        for path in listed:
            self.assertEqual(text.count(f"| [{path.removeprefix('include/dwell/')}]("), 1, path)

    def test_each_public_name_of_python_is_on_a_page(self):
        pages = hooks.python_reference()
        text = "\n".join(pages.values())
        names = [name for name in hooks.exported("python/dwell/__init__.py") if not name.startswith("__")]
        names += hooks.exported("python/dwell/_functions.py")
        self.assertGreater(len(names), 150)
        for name in names:
            self.assertRegex(text, rf"(?m)^::: dwell\.{name}$")
        for name in hooks.exported("python/dwell/torch/__init__.py"):
            self.assertIn(f"        - {name}\n", pages["reference/python/torch.md"])


class Docstrings(unittest.TestCase):
    def test_parameters_become_a_list(self):
        text = "Opens it.\n\nworkers: threads\n    of a CPU\nidle, `lease`: times"
        expected = "Opens it.\n\n- `workers`: threads\n    of a CPU\n- `idle`, `lease`: times"
        self.assertEqual(docstrings.as_markdown(text, {"workers", "idle"}), expected)
        self.assertEqual(docstrings.as_markdown("Note: this", {"workers"}), "Note: this")

    def test_names_become_links_and_brackets_stay(self):
        self.assertEqual(docstrings.as_markdown('Raises dwell.Error: "a<b>", `c<d>`', set()), 'Raises [dwell.Error][]: "a&lt;b>", `c<d>`')
        self.assertEqual(docstrings.as_markdown("So:\n\n    dwell.Runtime() < 2", set()), "So:\n\n    dwell.Runtime() < 2")


class Comments(unittest.TestCase):
    def check(self, before: str, after: str) -> None:
        self.assertEqual(comments.filtered(before), after)

    def test_the_first_tells_of_the_file(self):
        self.check("// A view.\n#pragma once\n", "/// @file\n/// A view.\n///\n#pragma once\n")

    def test_before_and_behind_declarations(self):
        self.check(
            "\n// A pair.\nstruct Pair {\n  int a;  // first\n          // of two\n  // Both.\n  int sum() const;\n};  // no\n",
            "\n/// A pair.\nstruct Pair {\n  int a;  ///< first\n          ///< of two\n  /// Both.\n  int sum() const;\n};  // no\n",
        )

    def test_those_in_bodies_stay(self):
        text = "\nint f() {\n  // A reason.\n  g();  // another\n  return 0;\n}\n"
        self.check(text, text)
        text = "\nstd::string text = R\"(\n// none\n)\";\nint a = '\"', b;\n"
        self.check(text, text)

    def test_those_before_nothing_stay(self):
        text = "\n// Apart.\n\nint a;\n#endif  // X\n"
        self.check(text, text)

    def test_enumerators(self):
        self.check("\nenum class E {\n  a,  // one\n  // Two.\n  b\n};\n", "\nenum class E {\n  a,  ///< one\n  /// Two.\n  b\n};\n")

        text = "\nenum class E {\n  // Of workers.\n  a,  // one\n};\n"
        self.check(text, text.replace("// one", "///< one"))

    def test_overloads_share_one_and_others_do_not(self):
        self.check(
            "\n// Waits.\nvoid wait();\nvoid wait(int ms) {\n  go();\n}\nvoid other();\n\nvoid wait(long);\n",
            "\n/// Waits.\nvoid wait();\n/// Waits.\nvoid wait(int ms) {\n  go();\n}\nvoid other();\n\nvoid wait(long);\n",
        )

    def test_a_heading_of_several_members(self):
        self.check(
            "\nstruct S {\n  // With times alone:\n  int a;\n  int b;  // B\n\n  // The ring. Of the host.\n  int c;  // C\n};\n",
            "\nstruct S {\n  /// @name With times alone\n  /// @{\n  int a;\n  int b;  ///< B\n  /// @}\n\n"
            "  /// @name The ring\n  /// Of the host.\n  /// @{\n  int c;  ///< C\n  /// @}\n};\n",
        )

    def test_special_characters_and_references(self):
        self.check(
            "\n// As Runtime::wait, `a<b>`, \"x@y\": a[i] <b> #c, 0 .. n; errc::closed, std::bad_alloc.\nint a;\n",
            "\n/// As \\ref dwell::Runtime::wait \"Runtime::wait\", `a<b>`, \"x@y\": a\\[i\\] \\<b\\> \\#c, 0 ..&nbsp;n; "
            "\\ref dwell::errc::closed \"errc::closed\", std::bad_alloc.\nint a;\n",
        )

    def test_indented_lines_are_code(self):
        self.check(
            "\n// So:\n//   a[0] = 1;\n// Then.\nint a;\n",
            "\n/// So:\n/// @code{.cpp}\n/// a[0] = 1;\n/// @endcode\n/// Then.\nint a;\n",
        )

    def test_of_a_macro(self):
        self.check(
            "\n// Makes one.\n#if A\n#define M(x) x\n#endif\nint a;\n",
            "\n/// @def M\n/// Makes one.\n#if A\n#define M(x) x\n#endif\nint a;\n",
        )

    def test_notes_for_tools_are_left_out(self):
        self.check("\n// NOLINTNEXTLINE(x)\nint a;  // NOLINT(y)\n", "\n\nint a;  // NOLINT(y)\n")


if __name__ == "__main__":
    unittest.main()
