"""Known differences of dwell.torch from PyTorch, and their reasons: operation_run.py accepts them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Known:
    """Matches differences by patterns, as of file names. `case`: operation, type, way and number of the sample, as printed. `varies`:
    depends on the processor's vectors, which PyTorch uses."""

    case: str
    kind: str
    why: str
    device: str = "*"
    varies: bool = False

    def is_of(self, difference: dict[str, str], device: str) -> bool:
        return (
            fnmatchcase(difference["case"], self.case) and fnmatchcase(difference["kind"], self.kind) and fnmatchcase(device, self.device)
        )


_OVERFLOWS = "products of the largest numbers are added up in another order: some sums overflow on the way, and then are NaN or infinite"

KNOWN: tuple[Known, ...] = (
    *(
        Known(
            f"{name} float* special *",
            "sign of zero",
            "which of two equal zeros is the greater one: PyTorch's vectors take the second, and what is left of a row the first",
            "cpu",
            varies=True,
        )
        for name in (
            *("clamp", "clamp_max", "clamp_min", "max-binary", "maximum", "min-binary", "minimum"),
            *("nn.functional.hardtanh", "nn.functional.relu6"),
        )
    ),
    Known("addcdiv * special *", "infinity", "PyTorch's kernel multiplies and adds in one step, which overflows less", "cuda"),
    *(Known(f"{name} * special *", "NaN", _OVERFLOWS, "cuda") for name in ("__rmatmul__", "matmul")),
    *(Known(f"{name} * special *", "NaN", _OVERFLOWS, "cpu", varies=True) for name in ("__rmatmul__", "matmul")),
    Known("mm * special *", "NaN", _OVERFLOWS, "cuda"),
    Known("prod * special *", "*", "numbers are multiplied in another order: some products overflow or vanish on the way"),
    *(
        Known(
            f"{name} float32 argument 0 0.1 *", "values", "the tenth power of a sum, in which its last digit counts ten times", varies=True
        )
        for name in ("norm", "norm-inf", "masked.normalize")
    ),
    Known("masked.var int16 special *", "values", "squares of up to 2^30 are added with 24 bits, in another order", "cpu", varies=True),
    Known(
        "nn.functional.poisson_nll_loss uint8 *",
        "values",
        "seven times a logarithm, whose last place PyTorch has otherwise in vectors than in what is left of a row",
        "cpu",
        varies=True,
    ),
    Known(
        "nn.functional.layer_norm float64 special *",
        "sign of zero",
        "one zero: presumably of a mean that is rounded in another order; the cause was not looked for",
        "cuda",
    ),
    Known(
        "nn.functional.scaled_dot_product_attention float64 overlapped *",
        "values",
        "results of 1e-18, which are exp(-41): an error in the last place of the exponent counts 41 times",
        "cuda",
    ),
    Known(
        "signal.windows.nuttall * *",
        "values",
        "at the ends four terms of up to 0.5 add up to 0.0004, in another order: the difference is one unit of the terms",
        "cuda",
    ),
    Known(
        "*layer_norm * special *",
        "NaN",
        "rows whose squares are too large: dwell has what PyTorch makes of them with vectors of 32 bytes",
        "cpu",
        varies=True,
    ),
    Known(
        "native_layer_norm float64 *",
        "sign of zero",
        "rows of one number: dwell subtracts the mean, PyTorch multiplies both with the deviation first, and rounds the second product",
        "cpu",
    ),
    Known(
        "nn.functional.gelu * special *",
        "sign of zero",
        "0 times a negative number: PyTorch's own functions in vectors and one by one differ in what is rounded to 0",
        "cpu",
        varies=True,
    ),
)


def sorted_out(differences: list[dict[str, str]], device: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Returns the known differences, each with its reason, and the others."""
    known, new = [], []
    for one in differences:
        why = next((entry.why for entry in KNOWN if entry.is_of(one, device)), None)
        if why is None:
            new.append(one)
        else:
            known.append({**one, "why": why})
    return known, new


def stale(differences: list[dict[str, str]], device: str) -> list[str]:
    """Returns the entries that matched nothing, except those that vary."""
    return [
        f"{entry.case} ({entry.kind})"
        for entry in KNOWN
        if not entry.varies and fnmatchcase(device, entry.device) and not any(entry.is_of(one, device) for one in differences)
    ]
