"""Lazy arrays: a small network learns the sine, in few tasks a step and without launches."""

import dwell
import numpy as np

with dwell.Runtime() as rt:  # a GPU where there is one, else the CPU
    rng = np.random.default_rng(1)

    def random(*shape):
        return dwell.array(rng.normal(0, 0.5, shape).astype("f4"), runtime=rt)

    x = dwell.linspace(-3, 3, 64, runtime=rt).reshape((64, 1))
    wanted = x.sin()
    first, bias, second = random(1, 32), random(32), random(32, 1)

    def step(rate):
        hidden = dwell.tanh(x @ first + bias)  # nothing runs yet
        error = hidden @ second - wanted
        back = (error @ second.T) * (1 - hidden * hidden)
        loss = dwell.mean(error * error)
        scale = rate / len(x)
        second[...] -= scale * (hidden.T @ error)  # writes for all who see the memory, behind those that read it
        first[...] -= scale * (x.T @ back)
        bias[...] -= scale * back.sum(0)
        return loss

    begin = step(0.1)
    for _ in range(1000):
        end = step(0.1)
    print(f"mean squared error: {float(begin):.3f}, then {float(end):.5f}")
    assert float(end) < 0.01
