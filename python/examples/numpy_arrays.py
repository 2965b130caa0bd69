"""Arrays of NumPy on the CPU: operators work on them where they are."""

import dwell
import numpy as np

with dwell.Runtime("cpu") as rt:
    normalise = rt.define(
        "normalise",
        """
#include <cmath>
DWELL_OPERATOR(normalise)(dwell::Group g, dwell::u32 columns, dwell::Span<float> rows) {  // a group a row
  const dwell::Span<float> row = rows.subspan(dwell::u64(g.index()) * columns, columns);
  float mine = 0;
  for (auto i : g.local_range(columns)) mine += row[i] * row[i];
  const float length = sqrtf(g.sum(mine));
  for (auto i : g.local_range(columns)) row[i] /= length;
}""",
    )
    rows = np.random.default_rng(1).random((8, 1000), dtype=np.float32)
    normalise(rows.shape[1], rows, groups=rows.shape[0]).wait()
    lengths = np.linalg.norm(rows, axis=1)
    print("lengths:", lengths)
    assert np.allclose(lengths, 1)

    try:
        normalise(1000, rows.astype("float64"))
    except dwell.SignatureMismatch as error:
        print(error)
