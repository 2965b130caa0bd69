"""Runs every example, the programs in the documentation and that in the package's docstring."""

import re
from pathlib import Path

import dwell
import pytest
from conftest import run_python

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted((ROOT / "python/examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples(path):
    run_python(path.read_text())


def test_the_docstring():
    program = dwell.__doc__[dwell.__doc__.index("    import dwell") :]
    assert "[2.5 4.5 6.5]" in run_python(program).stdout


# Imports that a document's programs omit.
BEFORE = {
    "docs/python.md": "import asyncio\nimport numpy as np\n",
}


def programs(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)


DOCUMENTS = [str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]]


@pytest.mark.parametrize("document", [document for document in DOCUMENTS if programs(document)])
def test_programs_in_the_documentation(document):
    """Runs all programs of a document in one namespace."""
    if document in ("docs/choose.md", "docs/loops.md", "docs/torch.md"):
        pytest.importorskip("torch")
    run_python("\n".join([BEFORE.get(document, ""), *programs(document)]), timeout=500)  # the extension for PyTorch may have to be built


def test_the_program_in_readme_stands_alone():
    (program,) = programs("README.md")
    (printed,) = re.findall(r"print\(y\.read\(\)\)  # (.*)", program)
    assert run_python(program).stdout.strip() == printed
