"""Shared by the tests of lazy arrays."""

import dwell
import numpy as np

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]
TOLERANCE = {"float16": 1e-3, "float32": 1.3e-6, "float64": 1e-14}  # at most those of torch.testing


def of(rt, x, **given):
    return dwell.asarray(x, runtime=rt, **given)


def check(result, expected, tolerance=0.0):
    seen = result.numpy()
    assert seen.shape == np.shape(expected)
    np.testing.assert_allclose(seen.astype("f8"), np.asarray(expected).astype("f8"), rtol=tolerance, atol=tolerance)


def layouts(x):
    """Returns the same elements in several memory layouts."""
    padded = np.zeros((x.shape[0] * 2, x.shape[1] + 1), x.dtype)
    padded[::2, 1:] = x
    return {"rows": x, "columns": np.asfortranarray(x), "backwards": x[::-1, ::-1].copy()[::-1, ::-1], "steps": padded[::2, 1:]}
