"""The programs of bench/torch_loops.py: small ones, as control loops run them.

Each is made for a device and an element type, always with the same numbers, so that the same program in float64 on the CPU tells what is
right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional
from torch_timing import Work, flat

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


class Place:
    """A device and an element type, and the tensors that a program has there."""

    def __init__(self, device: str, dtype: torch.dtype, *, foreach: bool | None = None) -> None:
        self.device = device
        self.dtype = dtype
        self.foreach = foreach  # of optimisers; None: PyTorch's choice
        self.tensors: list[torch.Tensor] = []  # none of them moves
        self._inputs: list[tuple[torch.Tensor, float]] = []
        self._numbers = torch.Generator().manual_seed(1)

    def constant(self, values: torch.Tensor) -> torch.Tensor:
        made = values.float().to(self.device, self.dtype)
        self.tensors.append(made)
        return made

    def draw(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        return self.constant(torch.randn(shape, generator=self._numbers) * scale)

    def rotation(self, size: int) -> torch.Tensor:
        """An orthogonal matrix: products by it neither grow nor vanish."""
        return self.constant(torch.linalg.qr(torch.randn(size, size, generator=self._numbers, dtype=torch.float64)).Q)

    def input(self, *shape: int, scale: float = 1.0, host: bool = False) -> torch.Tensor:
        """A tensor that `begin` fills. `host`: in the host's memory, pinned beside a GPU."""
        made = self.on_host(*shape) if host else torch.zeros(shape, device=self.device, dtype=self.dtype)
        if not host:
            self.tensors.append(made)
        self._inputs.append((made, scale))
        return made

    def on_host(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=self.dtype, pin_memory=self.device.startswith("cuda"))

    def module(self, make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
        torch.manual_seed(1)
        return make().to(self.device, self.dtype)

    def begin(self, number: int) -> None:
        """Fills all inputs with the contents of this number."""
        numbers = torch.Generator().manual_seed(1000 + number)
        for tensor, scale in self._inputs:
            tensor.copy_(torch.randn(tensor.shape, generator=numbers) * scale)


def nothing() -> None:
    pass


@dataclass
class Stepped:
    """The same program, written as one step that runs many times."""

    count: int
    state: list[tuple[torch.Tensor, torch.Tensor]]  # with what it is before the first step
    step: Callable[[Callable[[torch.Tensor], torch.Tensor]], Any]  # gets a function that gives its slice of a tensor
    result: Callable[[], Any]


@dataclass
class Called:
    """The same program from host to host: what its core gets from where, and where its result goes."""

    inputs: list[tuple[torch.Tensor, torch.Tensor]]
    output: torch.Tensor


@dataclass
class Program:
    """One run is `fetch`, `core`, `deliver`. The last of them returns what is checked, once `results` has looked at it."""

    place: Place
    core: Work
    begin: Callable[[int], None]
    fetch: Work = nothing  # brings inputs from the host
    deliver: Callable[[Any], Any] | None = None  # brings the core's result to the host
    results: Callable[[Any], list[torch.Tensor]] = flat
    compiled: Callable[[Compile], Work] | None = None  # the core with some of it compiled; None: all
    stepped: Stepped | None = None
    called: Called | None = None

    def around(self, core: Work) -> Work:
        """A run with this core in place of its own."""
        fetch, deliver = self.fetch, self.deliver
        if deliver is None:
            return core

        def run() -> Any:
            fetch()
            return deliver(core())

        return run


@dataclass
class Loop:
    """A program to run in a closed loop. With `lengths`, what is told is the cost of one more step: the time of the longer one minus that
    of the shorter one, divided."""

    name: str
    make: Callable[[Place, int], Program]  # of so many steps
    steps: int = 1
    lengths: tuple[int, int] | None = None
    trains: bool = False
    compiles: bool = True  # torch.compile does something with it
    tolerance: float = 1e-4


# ---- Programs --------------------------------------------------------------------------------------------------------------------------


def perceptron(place: Place, *widths: int) -> torch.nn.Module:
    def make() -> torch.nn.Module:
        layers: list[torch.nn.Module] = []
        for a, b in pairwise(widths):
            layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])

    return place.module(make)


def forward(place: Place, _: int) -> Program:
    model = perceptron(place, 64, 256, 256, 8)
    x = place.input(1, 64)
    return Program(place, lambda: model(x), place.begin)


def one_sum(place: Place, _: int) -> Program:
    x = place.input(256)
    return Program(place, lambda: x + 1, place.begin)


def runge_kutta(place: Place, steps: int) -> Program:
    """Damped pendulums, the classic method of fourth order: 29 operations a step."""
    start = place.input(1024)
    a, b = place.draw(1024), place.draw(1024, scale=0.1)
    h = 0.02

    def slope(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * a - x * b

    def advance(x: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            k1 = slope(x)
            k2 = slope(x + k1 * (h / 2))
            k3 = slope(x + k2 * (h / 2))
            k4 = slope(x + k3 * h)
            x = x + (k1 + k2 * 2 + k3 * 2 + k4) * (h / 6)
        return x

    def compiled(compiler: Compile) -> Work:
        """Five steps at a time: of all in one, torch.compile makes one function, for which it takes minutes."""
        five = compiler(lambda x: advance(x, 5))

        def core() -> torch.Tensor:
            x = start
            for _ in range(steps // 5):
                x = five(x)
            return x

        return core

    return Program(place, lambda: advance(start, steps), place.begin, compiled=compiled)


def lstm_written_out(hidden: int) -> Callable[[Place, int], Program]:
    """The weights and the inputs of `recurrent`."""

    def make(place: Place, steps: int) -> Program:
        layer: Any = place.module(lambda: torch.nn.LSTM(64, hidden))
        weights = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
        w, u, b, d = (weight.detach() for weight in weights)
        place.tensors += [w, u, b, d]
        x, first_h, first_c = place.input(steps, 1, 64), place.input(1, hidden), place.input(1, hidden)

        def core() -> tuple[torch.Tensor, torch.Tensor]:
            h, c = first_h, first_c
            for step in range(steps):
                gates = functional.linear(x[step], w, b) + functional.linear(h, u, d)
                i, f, g, o = gates.chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
            return h, c

        h, c = torch.empty_like(first_h), torch.empty_like(first_c)

        def one(each: Callable[[torch.Tensor], torch.Tensor]) -> None:
            gates = functional.linear(each(x), w, b) + functional.linear(h, u, d)
            i, f, g, o = gates.chunk(4, 1)
            c.copy_(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
            h.copy_(torch.sigmoid(o) * torch.tanh(c))

        place.tensors += [h, c]
        stepped = Stepped(steps, [(h, first_h), (c, first_c)], one, lambda: (h, c))
        return Program(place, core, place.begin, stepped=stepped)

    return make


def gru_written_out(hidden: int) -> Callable[[Place, int], Program]:
    """The weights and the inputs of `recurrent`."""

    def make(place: Place, steps: int) -> Program:
        layer: Any = place.module(lambda: torch.nn.GRU(64, hidden))
        weights = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0)
        w, u, b, d = (weight.detach() for weight in weights)
        place.tensors += [w, u, b, d]
        x, first = place.input(steps, 1, 64), place.input(1, hidden)

        def next_of(h: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
            of_x, of_h = functional.linear(seen, w, b).chunk(3, 1), functional.linear(h, u, d).chunk(3, 1)
            reset, update = torch.sigmoid(of_x[0] + of_h[0]), torch.sigmoid(of_x[1] + of_h[1])
            new = torch.tanh(of_x[2] + reset * of_h[2])
            return new + update * (h - new)

        def core() -> torch.Tensor:
            h = first
            for step in range(steps):
                h = next_of(h, x[step])
            return h

        h = torch.empty_like(first)

        def one(each: Callable[[torch.Tensor], torch.Tensor]) -> None:
            h.copy_(next_of(h, each(x)))

        place.tensors.append(h)
        return Program(place, core, place.begin, stepped=Stepped(steps, [(h, first)], one, lambda: h))

    return make


def recurrent(kind: type[torch.nn.Module], hidden: int) -> Callable[[Place, int], Program]:
    """torch.nn.LSTM or torch.nn.GRU: on CUDA cuDNN's persistent kernels."""

    def make(place: Place, steps: int) -> Program:
        layer = place.module(lambda: kind(64, hidden))
        x = place.input(steps, 1, 64)
        states = [place.input(1, 1, hidden) for _ in range(2 if kind is torch.nn.LSTM else 1)]
        first = tuple(states) if len(states) > 1 else states[0]
        return Program(place, lambda: layer(x, first)[1], place.begin)

    return make


def kalman(place: Place, steps: int) -> Program:
    """8 states, 4 measurements. The inverse of the innovation's covariance: 8 iterations of Newton's, from the identity by its trace."""
    eye8, eye4 = torch.eye(8), torch.eye(4)
    turn = place.rotation(8)
    f = place.constant(turn.double().cpu() * 0.98)
    h = place.draw(4, 8, scale=8**-0.5)
    q, r = place.constant(eye8 * 0.05), place.constant(eye4 * 0.5)
    identity = place.constant(eye4)
    ft, ht = f.t(), h.t()
    start_x, start_p = place.input(8, 1), place.constant(eye8)
    z = place.input(steps, 4, 1)

    def one(x: torch.Tensor, p: torch.Tensor, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = f @ x
        p = torch.addmm(q, f @ p, ft)
        ph = p @ ht
        s = torch.addmm(r, h, ph)
        inverse = identity / s.diagonal().sum()
        for _ in range(8):
            inverse = torch.addmm(inverse, inverse @ s, inverse, beta=2, alpha=-1)
        gain = ph @ inverse
        return torch.addmm(x, gain, seen - h @ x), torch.addmm(p, gain, ph.t(), alpha=-1)

    def core() -> tuple[torch.Tensor, torch.Tensor]:
        x, p = start_x, start_p
        for step in range(steps):
            x, p = one(x, p, z[step])
        return x, p

    x, p = torch.empty_like(start_x), torch.empty_like(start_p)

    def in_place(each: Callable[[torch.Tensor], torch.Tensor]) -> None:
        next_x, next_p = one(x, p, each(z))
        x.copy_(next_x)
        p.copy_(next_p)

    place.tensors += [x, p]
    return Program(place, core, place.begin, stepped=Stepped(steps, [(x, start_x), (p, start_p)], in_place, lambda: (x, p)))


class _Layer:
    """Of a decoder."""

    def __init__(self, place: Place, size: int, heads: int, length: int) -> None:
        self.size, self.heads = size, heads
        scale = size**-0.5
        self.norms = [(place.draw(size, scale=0.1).add_(1), place.draw(size, scale=0.1)) for _ in range(2)]
        self.qkv, self.out = place.draw(3 * size, size, scale=scale), place.draw(size, size, scale=scale)
        self.up, self.down = place.draw(4 * size, size, scale=scale), place.draw(size, 4 * size, scale=scale / 2)
        self.keys, self.values = (place.input(heads, length, size // heads) for _ in range(2))

    def normal(self, number: int, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self.norms[number]
        return functional.layer_norm(x, (self.size,), weight, bias)

    def run(self, x: torch.Tensor) -> torch.Tensor:
        each = self.size // self.heads
        q, k, v = functional.linear(self.normal(0, x), self.qkv).view(3, self.heads, 1, each).unbind(0)
        self.keys[:, -1:].copy_(k)
        self.values[:, -1:].copy_(v)
        scores = torch.softmax((q @ self.keys.transpose(1, 2)) * each**-0.5, -1)
        x = x + functional.linear((scores @ self.values).view(1, self.size), self.out)
        return x + functional.linear(functional.gelu(functional.linear(self.normal(1, x), self.up)), self.down)


def decoder(place: Place, _: int) -> Program:
    """A token of a transformer: its keys and values go to the end of a cache of 128, and it attends to all of it; logits of 256."""
    layers = [_Layer(place, 128, 4, 128) for _ in range(2)]
    head = place.draw(256, 128, scale=128**-0.5)
    token = place.input(1, 128)

    def core() -> torch.Tensor:
        x = token
        for layer in layers:
            x = layer.run(x)
        return functional.linear(functional.layer_norm(x, (128,)), head)

    return Program(place, core, place.begin)


def control(place: Place, _: int) -> Program:
    """From host to host. On CUDA its numbers are in pinned memory."""
    model = perceptron(place, 32, 128, 128, 8)
    sensors, actions = place.input(1, 32, host=True), place.on_host(1, 8)
    x = torch.zeros(1, 32, device=place.device, dtype=place.dtype)
    place.tensors.append(x)
    return Program(
        place,
        lambda: model(x),
        place.begin,
        fetch=lambda: x.copy_(sensors, non_blocking=True),
        deliver=lambda y: actions.copy_(y, non_blocking=True),
        called=Called([(x, sensors)], actions),
    )


def training(batch: int) -> Callable[[Place, int], Program]:
    """One step by SGD. What is checked is by how much the parameters change, and the loss."""

    def make(place: Place, _: int) -> Program:
        model = perceptron(place, 64, 256, 256, 8)
        parameters = list(model.parameters())
        start = [parameter.detach().clone() for parameter in parameters]
        x, y = place.input(batch, 64), place.input(batch, 8)
        optimizer = torch.optim.SGD(parameters, lr=0.05, foreach=place.foreach)

        def loss_of() -> torch.Tensor:
            return functional.mse_loss(model(x), y)

        def step_by(loss: Work) -> Work:
            def step() -> torch.Tensor:
                optimizer.zero_grad()
                result = loss()
                result.backward()
                optimizer.step()
                return result.detach()

            return step

        def begin(number: int) -> None:
            place.begin(number)
            with torch.no_grad():
                for parameter, was in zip(parameters, start, strict=True):
                    parameter.copy_(was)

        def results(loss: torch.Tensor) -> list[torch.Tensor]:
            return [loss, *(parameter.detach() - was for parameter, was in zip(parameters, start, strict=True))]

        return Program(
            place,
            step_by(loss_of),
            begin,
            results=results,
            compiled=lambda compiler: step_by(compiler(loss_of)),
        )

    return make


# ---- Chains ----------------------------------------------------------------------------------------------------------------------------


def chain(step: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], shape: tuple[int, int], size: int) -> Callable[[Place, int], Program]:
    """A step that needs the last one's result, so many times. The first two results count too: the last may hardly depend on the input."""

    def make(place: Place, steps: int) -> Program:
        weight = place.rotation(size)
        start = place.input(*shape)

        def core() -> list[torch.Tensor]:
            x = start
            kept = []
            for number in range(steps):
                x = step(x, weight)
                if number < 2:
                    kept.append(x)
            return [*kept, x]

        return Program(place, core, place.begin)

    return make


def loops(short: bool) -> list[Loop]:
    """What is timed, in that order. `short`: fewer steps, to see that all of it works."""
    steps = 4 if short else 20
    of_cell, of_library = ((3, 5), (3, 5)) if short else ((10, 30), (20, 120))
    of_chain = (4, 8) if short else (16, 80)
    loose = 5e-3  # cuDNN may use TF32
    lstm, gru = torch.nn.LSTM, torch.nn.GRU
    found = [
        Loop("MLP 64-256-256-8, batch 1, one pass", forward),
        Loop(f"RK4 over 1024 states, {5 if short else 50} steps", runge_kutta, 5 if short else 50),
        Loop(f"LSTM 64 to 128, {steps} steps, written out", lstm_written_out(128), steps),
        Loop(f"LSTM 64 to 128, {steps} steps, torch.nn.LSTM", recurrent(lstm, 128), steps, tolerance=loose, compiles=False),
        Loop(f"GRU 64 to 128, {steps} steps, written out", gru_written_out(128), steps),
        Loop(f"GRU 64 to 128, {steps} steps, torch.nn.GRU", recurrent(gru, 128), steps, tolerance=loose, compiles=False),
        Loop(f"Kalman filter 8 x 4, Newton inverse, {steps} steps", kalman, steps, tolerance=1e-3),
        Loop("decoder token, d 128, 2 layers, kv 128", decoder),
        Loop("control step: 32 numbers from the host, MLP 32-128-128-8, 8 back", control),
        Loop("MLP training step, batch 1", training(1), trains=True, tolerance=1e-2),
        Loop("MLP training step, batch 64", training(64), trains=True, tolerance=1e-2),
        Loop("one operation: a sum of 256 numbers", one_sum),
    ]

    def of_library_and_written_out(
        kind: str, layer: type[torch.nn.Module], written_out: Callable[[int], Callable[[Place, int], Program]]
    ) -> None:
        for hidden in (128, 256, 512):
            name = f"{kind} 64 to {hidden}, one more step"
            found.append(Loop(f"{name}, written out", written_out(hidden), lengths=of_cell, tolerance=1e-3))
            found.append(Loop(f"{name}, torch.nn.{kind}", recurrent(layer, hidden), lengths=of_library, tolerance=loose, compiles=False))

    of_library_and_written_out("LSTM", lstm, lstm_written_out)
    found += [
        Loop("chain of linear 1x256 by 256x256, one more step", chain(functional.linear, (1, 256), 256), lengths=of_chain),
        Loop("chain of mm 8x8, one more step", chain(torch.mm, (8, 8), 8), lengths=of_chain),
        Loop("chain of softmax 8x128, one more step", chain(lambda x, _: torch.softmax(x, -1), (8, 128), 1), lengths=of_chain),
        Loop("chain of linear 64x256 by 256x256, one more step", chain(functional.linear, (64, 256), 256), lengths=of_chain),
    ]
    of_library_and_written_out("GRU", gru, gru_written_out)
    return found
