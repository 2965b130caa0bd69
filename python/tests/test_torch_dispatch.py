"""dwell.torch: the dispatch key under which operations are taken, and the Python mode if no key fits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import run_python
from torch_support import DEVICE, dt, made, taken, torch

pytestmark = pytest.mark.skipif("DWELL_TORCH_KEY" in os.environ, reason="of the key that is chosen without it")

_TAKES = f"""
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            with dt.eager():
                x = 3 - torch.ones(4, device={DEVICE!r}) * 2
        print(x.tolist(), dt.stats()["taken"] > 0, [str(one.message).partition("(")[2].rstrip(")") for one in heard])
        """


def test_an_unused_key_is_found() -> None:
    with dt.eager():
        before = taken()
        made(4) + 1
        assert taken() > before
    assert torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", "Fake")


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("python", "python is no dispatcher key of this PyTorch"),
        ("AutocastCPU", "AutocastCPU is not below FuncTorchDynamicLayerBackMode"),
        ("CustomRNGKeyId", "CustomRNGKeyId is not above MkldnnCPU"),
        ("Python", "Python has a fallback of somebody else's"),
    ],
)
def test_an_unsuitable_key_is_not_used(key: str, why: str) -> None:
    done = run_python("        import warnings, torch, dwell.torch as dt" + _TAKES, DWELL_TORCH_KEY=key)
    assert done.stdout.strip() == f"[1.0, 1.0, 1.0, 1.0] True {[why]}"


def test_a_foreign_key_is_not_used() -> None:
    theirs = """
        import warnings, torch, dwell.torch as dt
        library = torch.library.Library("aten", "IMPL", "Fake")
        library.impl("sinc", lambda x: x, "Fake")
        """
    done = run_python(theirs + _TAKES)
    assert done.stdout.strip() == f"""[1.0, 1.0, 1.0, 1.0] True {["Fake has a kernel of somebody else's for aten::sinc"]}"""


def test_programs_run_in_the_mode() -> None:
    """Runs fewer programs of other tests in the mode."""
    here = Path(__file__).parent
    files = [str(here / f"test_torch{name}.py") for name in ("", "_programs", "_recordings", "_layouts")]
    some = "not left_behind and (not types_and_layouts or sum or pow or lerp)"
    environment = {**os.environ, "DWELL_TORCH_KEY": "python", "DWELL_TORCH_PROGRAMS": "3", "DWELL_TORCH_SHORT_PROGRAMS": "100"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", some, *files]
    done = subprocess.run(command, env=environment, cwd=here, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "RuntimeWarning: dwell.torch takes operations by a mode" in done.stdout


def test_outer_modes_see_inner_operations() -> None:
    done = run_python(
        """
        import torch, dwell.torch as dt
        from torch.utils._python_dispatch import TorchDispatchMode

        class Seen(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
                if function.namespace == "aten":
                    names.append(function.name())
                return function(*arguments, **(keywords or {}))

        names = []
        x = torch.ones(4)
        with Seen(), dt.eager():
            y = x * 2
        with dt.eager(), Seen():
            z = x + 1
        print(names, y.tolist(), z.tolist(), dt.stats()["fallback"]["aten::mul.Tensor"])
        """,
        DWELL_TORCH_KEY="python",
    )
    assert done.stdout.strip() == "['aten::mul.Tensor', 'aten::add.Tensor'] [2.0, 2.0, 2.0, 2.0] [2.0, 2.0, 2.0, 2.0] {'mode': 1}"
