"""Where dwell.torch differs from PyTorch, and why: what operation_run.py finds and takes for known."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Known:
    """Patterns, as of file names. `case`: operation, type, way and number of the sample, as they are printed."""

    case: str
    kind: str
    why: str
    device: str = "*"

    def is_of(self, difference: dict[str, str], device: str) -> bool:
        return (
            fnmatchcase(difference["case"], self.case) and fnmatchcase(difference["kind"], self.kind) and fnmatchcase(device, self.device)
        )


_OVERFLOWS = "products of the largest numbers are added up in another order: some sums overflow on the way, and then are NaN or infinite"

KNOWN: tuple[Known, ...] = (
    *(
        Known(f"{name} *float* special *", "values", "a number that the integer does not hold: docs/torch.md has what becomes of it", "cpu")
        for name in ("byte", "char", "int", "long", "short")
    ),
    *(
        Known(f"nn.functional.{name} float* special *", "sign of zero", "which of two equal zeros is the greater one", "cpu")
        for name in ("hardtanh", "relu6")
    ),
    Known("addcdiv * special *", "infinity", "PyTorch's kernel multiplies and adds in one step, which overflows less", "cuda"),
    *(Known(f"{name} * special *", "NaN", _OVERFLOWS) for name in ("__rmatmul__", "matmul")),
    Known("mm * special *", "NaN", _OVERFLOWS, "cuda"),
    Known("prod * special *", "*", "numbers are multiplied in another order: some products overflow or vanish on the way"),
    *(
        Known(f"{name} float32 argument 0 0.1 *", "values", "the tenth power of a sum, in which its last digit counts ten times")
        for name in ("norm", "norm-inf")
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
        "native_layer_norm * special *",
        "NaN",
        "the mean of a row that holds an infinity: PyTorch puts partial means together, and makes NaN of it",
        "cpu",
    ),
    Known("native_layer_norm float64 value *", "*", "rows of one or two numbers: their mean is rounded, and PyTorch's is not", "cpu"),
    Known("nn.functional.layer_norm float64 value *", "values", "rows of two numbers: their mean is rounded, and PyTorch's is not", "cpu"),
    Known(
        "nn.functional.gelu * special *",
        "sign of zero",
        "0 times a negative number: PyTorch's own functions in vectors and one by one differ in what is rounded to 0",
        "cpu",
    ),
)


def sorted_out(differences: list[dict[str, str]], device: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Those that are known, each with the reason, and the others."""
    known, new = [], []
    for one in differences:
        why = next((entry.why for entry in KNOWN if entry.is_of(one, device)), None)
        if why is None:
            new.append(one)
        else:
            known.append({**one, "why": why})
    return known, new


def stale(differences: list[dict[str, str]], device: str) -> list[str]:
    """Entries of which nothing was found."""
    return [
        f"{entry.case} ({entry.kind})"
        for entry in KNOWN
        if fnmatchcase(device, entry.device) and not any(entry.is_of(one, device) for one in differences)
    ]
