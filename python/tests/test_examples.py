"""Every example runs, and so does the program in the package's own words."""

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


def test_programs_in_the_documentation():
    text = (ROOT / "docs/python.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(programs) > 3
    run_python("\n".join(["import dwell, numpy as np, asyncio", *programs]))
