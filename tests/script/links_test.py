#!/usr/bin/env python3
"""Links of the documentation lead somewhere: to a file of the project, and to a heading that is there."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "``", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, without punctuation, dashes for blanks, a number for one that is there already."""
    found: set[str] = set()
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower().strip()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number, name = 0, slug
        while name in found:
            number += 1
            name = f"{slug}-{number}"
        found.add(name)
    return found


def broken(page: Path) -> list[str]:
    faults = []
    for link in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            faults.append(f"{page}: {link}: there is no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            faults.append(f"{page}: {link}: there is no such heading")
    return faults


class Links(unittest.TestCase):
    def test_each_leads_somewhere(self):
        found = pages()
        self.assertGreater(len(found), 20)
        self.assertEqual([fault for page in found for fault in broken(page)], [])

    def test_a_broken_one_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text(
                "# One `two`, three\n[a](#one-two-three) [b](nowhere.md) [c](#nowhere) [d](https://example.org)\n`[e](nowhere)`\n"
            )
            self.assertEqual([fault.split(": ")[1] for fault in broken(page)], ["nowhere.md", "#nowhere"])


if __name__ == "__main__":
    unittest.main()
