"""Runs some random programs of fuzz_torch.py in contexts."""

import os
import subprocess
import sys
from pathlib import Path

import fuzz_torch
import pytest
from torch_support import DEVICE

pytestmark = [
    pytest.mark.skipif(DEVICE != "cpu", reason="memory of the host"),
    pytest.mark.skipif("DWELL_TORCH_KEY" in os.environ, reason="of the key that is chosen without it"),
    pytest.mark.filterwarnings("ignore"),
]


def test_random_programs_are_the_same() -> None:
    failures = [f"program {seed}: {how}\n{steps}" for seed, how, steps in fuzz_torch.failing(range(100))]
    assert not failures, "\n".join(failures)


def test_programs_that_differ_or_end_the_process_are_found_and_shortened(tmp_path: Path) -> None:
    faults = """
import sys, os
sys.path.insert(0, os.path.dirname(os.environ["FUZZ"]))
import fuzz_torch as f
f.STEPS["differs"] = (lambda state, draw: state.seen.append(state.eager)), 0
f.STEPS["ends"] = (lambda state, draw: os._exit(3) if state.eager else None), 0
fill = ("makes", 1)
programs = {0: [fill, fill, ("differs", 1), fill], 1: [fill, ("ends", 1), fill], 2: [fill]}
f.program = lambda seed: programs[seed]
f.__file__ = os.environ["FUZZ_FAULTS"]
sys.exit(f.main())
"""
    here = Path(fuzz_torch.__file__)
    program = tmp_path / "faults.py"
    program.write_text(faults)
    done = subprocess.run(
        [sys.executable, str(program), "--programs", "3"],
        env={**os.environ, "FUZZ": str(here), "FUZZ_FAULTS": str(program)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "program 0 differs: " in done.stdout
    assert '    [["makes", 1], ["differs", 1]]' in done.stdout
    assert 'program 1 ends the process (status 3)\n    [["makes", 1], ["ends", 1]]' in done.stdout
    assert "3 programs from 0: " in done.stdout
