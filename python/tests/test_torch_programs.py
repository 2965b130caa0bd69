"""Random programs with views, changes in place, deletions and reads give PyTorch's results."""

import os
import random
from typing import Any

import pytest
from torch_support import DEVICE, dt, torch

_PROGRAMS = int(os.environ.get("DWELL_TORCH_PROGRAMS", "40"))
_STEPS = 1000
_SHORT_PROGRAMS = int(os.environ.get("DWELL_TORCH_SHORT_PROGRAMS", "10000"))
_SHORT_STEPS = 12

_UNARY = ["neg", "abs", "relu", "sigmoid", "tanh", "exp", "sin", "cos", "sqrt", "round", "sign", "square"]
_BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "atan2"]
_IN_PLACE = ["add", "sub", "mul"]
_ROWS = [
    lambda t: t.sum(-1, keepdim=True) * 0.1,
    lambda t: t.mean(0),
    lambda t: t.softmax(-1),
    lambda t: t.amax(-1),
    lambda t: t.cumsum(-1) * 0.1,
]
_VIEWS = [
    lambda t: t.t() if t.dim() == 2 else t,
    lambda t: t[1:] if t.shape[0] > 2 else t,
    lambda t: t[::2],
    lambda t: t.reshape(-1),
    lambda t: t.flip(0),
    lambda t: t.unsqueeze(0)[0],
    lambda t: t.expand(2, *t.shape)[1],
    lambda t: t.select(-1, 0) if t.dim() > 1 else t,
]
_OTHERS = [
    lambda t: t.sort(-1)[0],
    lambda t: t.roll(1, 0),
    lambda t: torch.stack([t, t])[1],
    lambda t: t.to(torch.float32).to(torch.float64),
]


def tame(value: Any) -> Any:
    """Limits numbers to a range that does not amplify a rounding error."""
    return torch.nan_to_num(value, 0.5, 2.0, -2.0).clamp(-3, 3)


def run(seed: int, steps: int) -> tuple[list[float], list[Any]]:
    draw = random.Random(seed)
    options = {"device": DEVICE, "dtype": torch.float64, "generator": torch.Generator(device=DEVICE).manual_seed(seed)}
    tensors = [torch.rand(8, 16, **options) + 0.5 for _ in range(4)] + [torch.rand(16, **options), torch.rand(8, 1, **options)]
    reads: list[float] = []
    for _ in range(steps):
        kind = draw.random()
        a, b = draw.choice(tensors), draw.choice(tensors)
        try:
            if kind < 0.3:
                result = tame(getattr(torch, draw.choice(_UNARY))(a))
            elif kind < 0.55:
                result = tame(getattr(torch, draw.choice(_BINARY))(a, b))
            elif kind < 0.62:
                result = tame(getattr(a, draw.choice(["add", "mul", "div", "sub"]))(draw.choice([2.0, 3, 0.5, -1])))
            elif kind < 0.7:
                result = torch.where(a > 1, a, b)
            elif kind < 0.78:
                getattr(a, draw.choice(_IN_PLACE) + "_")(b)
                a.clamp_(-3, 3)
                continue
            elif kind < 0.86:
                result = draw.choice(_VIEWS)(a)
            elif kind < 0.91:
                result = draw.choice(_ROWS)(a) if a.dim() else a
            elif kind < 0.93:
                result = draw.choice(_OTHERS)(a)
            elif kind < 0.95:
                torch.add(a, b, out=draw.choice(tensors).detach())
                continue
            elif kind < 0.97:
                reads.append(float(torch.nan_to_num(a).sum()))
                continue
            else:
                if len(tensors) > 4:
                    tensors.pop(draw.randrange(len(tensors)))
                continue
        except RuntimeError as error:  # shapes that do not fit, overlapping memory
            reads.append(float(len(str(error))))
            continue
        if 1 < result.numel() <= 256:
            tensors.append(result)
        if len(tensors) > 12:
            tensors.pop(draw.randrange(len(tensors)))
    return reads, [tensor.clone() for tensor in tensors]


def compare(seed: int, steps: int) -> None:
    expected_reads, expected = run(seed, steps)
    with dt.eager(capacity=random.Random(seed).choice([3, 50, 1000]), resident=seed % 4 == 3):
        reads, got = run(seed, steps)
    assert reads == pytest.approx(expected_reads, rel=1e-6, abs=1e-6), seed
    assert len(got) == len(expected), seed
    for x, y in zip(expected, got, strict=True):
        assert x.shape == y.shape, seed
        assert y.dtype == x.dtype, seed
        if not torch.allclose(y, x, rtol=1e-6, atol=1e-6, equal_nan=True):
            torch.testing.assert_close(y, x, rtol=1e-6, atol=1e-6, equal_nan=True, msg=lambda text: f"program {seed}: {text}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(_PROGRAMS))
def test_a_program_is_the_same(seed: int) -> None:
    compare(seed, _STEPS)


@pytest.mark.filterwarnings("ignore")
def test_short_programs_are_the_same() -> None:
    for seed in range(_PROGRAMS, _PROGRAMS + _SHORT_PROGRAMS):
        compare(seed, _SHORT_STEPS)
