"""The steps of fuzz_torch.py's programs. A step gets the program's state and random numbers; its result is kept.

A step must do the same with PyTorch alone and in a context, except for rounding: no fraction becomes a condition, integer, index or byte.
It must not crash PyTorch alone.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import pickle
import random
import struct
import threading
from collections.abc import Callable
from typing import Any

import dwell.torch as dt
import torch

_MOST_ELEMENTS = 256
_MOST_TENSORS = 10


class State:
    """The tensors and storages of a program, and the values it has read."""

    def __init__(self, eager: bool) -> None:
        self.tensors: list[Any] = []
        self.storages: list[Any] = []
        self.seen: list[Any] = []
        self.eager = eager

    def keep(self, value: Any) -> None:
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, torch.Tensor) and 0 < one.numel() <= _MOST_ELEMENTS:
                self.tensors.append(one)
        del self.tensors[:-_MOST_TENSORS]
        del self.storages[:-4]


STEPS: dict[str, tuple[Callable[[State, random.Random], Any], float]] = {}


def step(weight: float) -> Any:
    def add(function: Callable[[State, random.Random], Any]) -> Any:
        STEPS[function.__name__] = function, weight
        return function

    return add


def pick(state: State, draw: random.Random) -> Any:
    return state.tensors[draw.randrange(len(state.tensors))]


def floats(state: State, draw: random.Random) -> Any:
    """Picks a tensor of floats, detached. Converts one of another type."""
    one = pick(state, draw)
    return one.detach() if one.is_floating_point() else one.detach().double()


def vector(state: State, draw: random.Random, size: int = 4) -> Any:
    one = floats(state, draw).double().reshape(-1)
    return torch.cat([one] * (size // one.numel() + 1))[:size].tanh()


def tame(value: Any) -> Any:
    """Limits numbers to a range that does not amplify a rounding error."""
    return torch.nan_to_num(value, 0.5, 2.0, -2.0).clamp(-3, 3) if value.is_floating_point() else value


# ---- Operations ------------------------------------------------------------------------------------------------------------------------

_UNARY = ["neg", "abs", "relu", "sigmoid", "tanh", "exp", "sin", "cos", "sqrt", "square", "erf", "clone", "logical_not"]
_BINARY = ["add", "sub", "mul", "maximum", "minimum", "atan2", "lt", "hypot"]
# Operations that jump when an input is rounded differently, and their smooth replacements for fractions.
_SMOOTH = {"logical_not": "neg", "lt": "sub", "atan2": "hypot", "sqrt": "square", "any": "amax", "argmax": "amax", "max": "amax"}
_ROWS = ["sum", "mean", "amax", "argmax", "softmax", "cumsum", "logsumexp", "std", "norm", "max", "prod", "any", "log_softmax"]


def named(name: str, *given: Any, **keywords: Any) -> Any:
    if any(one.is_floating_point() for one in given):
        name = _SMOOTH.get(name, name)
    return getattr(torch, name)(*given, **keywords)


@step(6)
def makes(state: State, draw: random.Random) -> Any:
    shape = draw.choice([(4,), (2, 3), (3, 1), (2, 2, 2), (1,), (8,), ()])
    dtype = draw.choice([torch.float64] * 4 + [torch.float32, torch.int64, torch.bool, torch.uint8, torch.float16])
    count = torch.Size(shape).numel()
    return torch.tensor([(draw.randrange(7) - 3) / 2 for _ in range(count)], dtype=torch.float64).to(dtype).reshape(shape)


@step(8)
def unary(state: State, draw: random.Random) -> Any:
    return tame(named(draw.choice(_UNARY), pick(state, draw)))


@step(10)
def binary(state: State, draw: random.Random) -> Any:
    return tame(named(draw.choice(_BINARY), pick(state, draw), pick(state, draw)))


@step(5)
def with_a_number(state: State, draw: random.Random) -> Any:
    return tame(getattr(pick(state, draw), draw.choice(["add", "mul", "sub", "__radd__", "__rsub__"]))(draw.choice([2, 0.5, -1, True])))


@step(8)
def in_place(state: State, draw: random.Random) -> None:
    one = pick(state, draw)
    with torch.no_grad():
        getattr(one, draw.choice(["add_", "mul_", "sub_", "copy_"]))(draw.choice([pick(state, draw), 2, 0.5]))
        one.clamp_(-3, 3)


@step(3)
def fills(state: State, draw: random.Random) -> None:
    with torch.no_grad():
        getattr(pick(state, draw), draw.choice(["zero_", "relu_", "neg_", "tanh_", "sigmoid_"]))()


@step(4)
def with_out(state: State, draw: random.Random) -> Any:
    with torch.no_grad():
        out = pick(state, draw)
        a, b = pick(state, draw), pick(state, draw)
        elements = torch.broadcast_shapes(a.shape, b.shape).numel()
        memory = out.untyped_storage()
        grows = (out.storage_offset() + elements) * out.element_size() > memory.nbytes()
        if elements > _MOST_ELEMENTS or (grows and not may_be_resized(memory)):
            return None
        return torch.add(a, b, out=out.detach())


@step(4)
def rows(state: State, draw: random.Random) -> Any:
    one = pick(state, draw)
    name = draw.choice(_ROWS)
    one = one.double() if name in ("mean", "softmax", "logsumexp", "std", "norm", "log_softmax") else one
    result = named(name, one, dim=-1) if one.dim() else one
    return [tame(part) for part in (result if isinstance(result, tuple) else [result])]


@step(2)
def products(state: State, draw: random.Random) -> Any:
    a, b = vector(state, draw, 6).view(2, 3), vector(state, draw, 6).view(3, 2)
    return draw.choice([lambda: a @ b, lambda: torch.addmm(torch.ones(2, 2, dtype=a.dtype), a, b), lambda: torch.dot(a[0], b[:, 1])])()


@step(3)
def put_together(state: State, draw: random.Random) -> Any:
    one = pick(state, draw)
    return draw.choice([torch.cat, torch.stack])([one, tame(one.clone())])


@step(2)
def not_taken(state: State, draw: random.Random) -> Any:
    one = floats(state, draw)
    return draw.choice(
        [lambda: one.sort(-1)[0], lambda: one.roll(1), lambda: one.cumprod(-1).clamp(-3, 3), lambda: one.flip(-1), lambda: one.nonzero()]
    )()


@step(2)
def typed(state: State, draw: random.Random) -> Any:
    one = pick(state, draw)
    return one.to(draw.choice([torch.float64, torch.float32] if one.is_floating_point() else [torch.float64, torch.int64, torch.bool]))


# ---- Views, deletions, replaced memory --------------------------------------------------------------------------------------------------


@step(8)
def views(state: State, draw: random.Random) -> Any:
    one = pick(state, draw)
    made: list[Callable[[], Any]] = [
        lambda: one.reshape(-1),
        lambda: one.unsqueeze(0),
        lambda: one.detach(),
        lambda: one[..., ::2],
        lambda: one[1:],
        lambda: one.t(),
        lambda: one.transpose(0, -1),
        lambda: one.expand(2, *one.shape),
        lambda: one.view(torch.int64).t().view(one.dtype) if one.dtype == torch.float64 else one.view(one.dtype),
        lambda: torch._neg_view(one) if one.dtype != torch.bool else one,
        lambda: one.as_strided((2,), (1,), one.storage_offset())
        if one.untyped_storage().nbytes() >= (one.storage_offset() + 2) * one.element_size()
        else one,
        lambda: one.unbind(0)[0],
    ]
    return draw.choice(made)()


@step(4)
def forgets(state: State, draw: random.Random) -> None:
    if len(state.tensors) > 2:
        del state.tensors[draw.randrange(len(state.tensors))]


@step(2)
def rebinds_data(state: State, draw: random.Random) -> None:
    one, other = pick(state, draw), pick(state, draw)
    one.data = other.detach().clone() if draw.random() < 0.5 else other.detach()


@step(2)
def sets(state: State, draw: random.Random) -> Any:
    one, other = pick(state, draw).detach(), pick(state, draw).detach()
    if draw.random() < 0.5:
        return torch.empty(0, dtype=other.dtype).set_(other)
    return one.set_(other) if one.dtype == other.dtype else None


@step(2)
def resizes(state: State, draw: random.Random) -> Any:
    one = pick(state, draw).detach()
    if not one.is_contiguous() or one.storage_offset() != 0 or one.is_neg() or not may_be_resized(one.untyped_storage()):
        return None
    had, size = one.numel(), draw.choice([1, 4, 16, 64, 200])
    fresh = one.untyped_storage().nbytes() // one.element_size()
    one.resize_(size)
    if size > min(had, fresh):
        one[min(had, fresh) :] = 1
    return one


# ---- Storages ---------------------------------------------------------------------------------------------------------------------------


@step(3)
def holds_storage(state: State, draw: random.Random) -> None:
    state.storages.append(pick(state, draw).untyped_storage())


def storage(state: State, draw: random.Random) -> Any:
    if not state.storages or draw.random() < 0.3:
        holds_storage(state, draw)
    return state.storages[draw.randrange(len(state.storages))]


def as_bytes(of: Any) -> Any:
    return torch.empty(0, dtype=torch.uint8).set_(of)


def may_be_resized(one: Any) -> bool:
    """PyTorch itself crashes if memory is shared with other processes, or copied lazily."""
    return bool(one.resizable() and one.nbytes() and not one.is_shared() and not torch._C._is_cow_tensor(as_bytes(one)))


@step(3)
def grows_storage(state: State, draw: random.Random) -> Any:
    one = storage(state, draw)
    if not may_be_resized(one):
        return None
    had = one.nbytes()
    one.resize_(had + draw.choice([24, 64, 4096, 1 << 17]))
    as_bytes(one)[had:] = 0
    return torch.empty(0, dtype=torch.float64).set_(one, had // 8 + 1, (min((one.nbytes() - had) // 8 - 1, 64),))


@step(1)
def empties_storage(state: State, draw: random.Random) -> Any:
    one = pick(state, draw).detach().resolve_neg().clone()
    memory = one.untyped_storage()
    one.add_(one)
    had = memory.nbytes()
    memory.resize_(0)
    memory.resize_(had)
    return one.fill_(1)


@step(2)
def writes_storage(state: State, draw: random.Random) -> None:
    one = storage(state, draw)
    kind = draw.randrange(4)
    if kind == 0:
        one.fill_(0)
    elif kind == 1:
        one.copy_((torch.arange(one.nbytes()) % 2).to(torch.uint8).untyped_storage())
    elif kind == 2:
        one[0] = 1
    else:
        # Keep only the length: bytes show rounding. PyTorch takes seconds for a large storage.
        state.seen.append(len(one.tolist()) if one.nbytes() <= 4096 else one.nbytes())


@step(2)
def shares(state: State, draw: random.Random) -> Any:
    one = pick(state, draw).detach()
    return (one.share_memory_() if draw.random() < 0.7 else one.clone().share_memory_()) + 1


@step(1)
def shares_module(state: State, draw: random.Random) -> Any:
    module = torch.nn.Linear(2, 2, bias=False, dtype=torch.float64)
    with torch.no_grad():
        module.weight.copy_(vector(state, draw).view(2, 2))
        module.weight.mul_(2)
    module.share_memory()
    return module(vector(state, draw, 2)).detach()


@step(2)
def pickles(state: State, draw: random.Random) -> Any:
    one = pick(state, draw).detach()
    kind = draw.randrange(4)
    if kind == 0:
        return pickle.loads(pickle.dumps(one))
    if kind == 1:
        return copy.deepcopy([one, one.reshape(-1)])
    if kind == 2:
        file = io.BytesIO()
        torch.save([one, one[..., :1]], file)
        file.seek(0)
        return torch.load(file)
    return copy.copy(one)


@step(2)
def other_names_of_memory(state: State, draw: random.Random) -> Any:
    """Uses a private copy: PyTorch leaves aliases behind when it replaces memory."""
    one = pick(state, draw).detach().resolve_neg().clone()
    other = draw.choice([lambda: torch.from_dlpack(one), lambda: torch.from_numpy(one.numpy()), lambda: torch.as_tensor(one.numpy())])()
    made = []
    for _ in range(3):
        a, b = draw.sample([one, other], 2)
        a.mul_(2).clamp_(-3, 3)
        made.append(
            draw.choice(
                [
                    lambda b=b: b.flip(-1),
                    lambda b=b: b * 2,
                    lambda b=b: tame(b.cumsum(-1)) if b.dim() else b.clone(),
                    lambda b=b: b.sort()[0],
                ]
            )()
        )
    return made


@step(1)
def lazy_copies(state: State, draw: random.Random) -> Any:
    one = pick(state, draw).detach()
    if not one.untyped_storage().resizable():
        one = one.clone()  # PyTorch crashes at a write to a lazy copy of memory without an allocator (a loaded file)
    return torch._lazy_clone(one)


# ---- Reads ------------------------------------------------------------------------------------------------------------------------------


@step(4)
def reads(state: State, draw: random.Random) -> None:
    one = pick(state, draw).detach()
    flat = one.reshape(-1)
    state.seen.append(
        draw.choice(
            [
                lambda: flat[0].item(),
                lambda: flat.tolist(),
                lambda: flat.double().numpy(force=True).tolist(),
                lambda: bool(flat[0] if not one.is_floating_point() else flat[0].abs() * 0 + 1),
                lambda: float(f"{flat[0].double():.3f}"),
                lambda: len(repr(one.abs().round() if one.is_floating_point() else one)),  # hides the sign of zero and rounding
                lambda: float(flat.double().sum()),
                lambda: [int(number) for number in flat.clamp(0, 1).long()],
            ]
        )()
    )


class Row:
    """A sequence that is no list."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int) -> Any:
        return self.items[at]


@step(3)
def reads_past_the_dispatcher(state: State, draw: random.Random) -> Any:
    one = vector(state, draw)
    return draw.choice(
        [
            lambda: torch.Tensor([one[0], one[1]]),
            lambda: torch.tensor(Row([one[2], one[3]]), dtype=torch.float64),
            lambda: one.new_tensor(Row([Row([one[2]]), Row([one[3]])])),
            lambda: torch.nn.functional.max_pool1d(one[None], 2),
            lambda: (one * 1).apply_(lambda number: number + 1),
            lambda: (one * 1).map_(one * 2, lambda a, b: a + b),
            lambda: torch.tensor_split(one, (one[:2] * 0 + 1).long().cumsum(0)),
            lambda: torch.repeat_interleave(one, (one * 0 + 2).long()),
            lambda: torch.full((2,), one[1] * 2),
            lambda: torch.sparse_coo_tensor((one[:1] * 0).long()[None], one[:1] * 2, (3,)).to_dense(),
            lambda: torch.nested.nested_tensor([one * 2, one[:2]]).to_padded_tensor(0.0),
            lambda: torch.nn.functional.ctc_loss(
                (one.view(4, 1, 1) * torch.arange(3.0)).log_softmax(2),
                (one[:2] * 0 + 1).int()[None, :1],
                (one[:1] * 0 + 4).int(),
                (one[:1] * 0 + 1).int(),
            ),
        ]
    )()


# ---- Autograd, transforms, classes ------------------------------------------------------------------------------------------------------


@step(3)
def gradients(state: State, draw: random.Random) -> Any:
    leaf = vector(state, draw).clone().requires_grad_()
    other = vector(state, draw)
    loss = draw.choice(
        [
            lambda: (leaf * other).tanh().sum(),
            lambda: (leaf.softmax(0) * other).sum(),
            lambda: leaf @ other,
            lambda: (leaf.view(2, 2) @ other.view(2, 2)).square().mean(),
        ]
    )()
    loss.backward()
    if draw.random() < 0.3:
        leaf.grad.mul_(2)
        (leaf * 2).sum().backward()
    return [leaf.grad, leaf.detach(), loss.detach()]


@step(3)
def transforms(state: State, draw: random.Random) -> Any:
    w, x = vector(state, draw), vector(state, draw)
    return draw.choice(
        [
            lambda: torch.func.jacfwd(lambda a: x @ a)(w),
            lambda: torch.func.jacfwd(lambda a: (x * a).tanh() + a[0])(w),
            lambda: torch.func.jacrev(lambda a: (x * a).softmax(0))(w),
            lambda: torch.func.hessian(lambda a: (a @ x).tanh() * a.sum())(w),
            lambda: torch.func.vmap(lambda a: a * x + a.sum())(torch.stack([w, x])),
            lambda: torch.func.vmap(torch.func.grad(lambda a: (a * x).sin().sum()))(torch.stack([w, x])),
            lambda: list(torch.func.jvp(lambda a: a.exp() * x, (w,), (x,))),
            lambda: torch.func.functionalize(lambda a: a.clone().add_(1).view(2, 2).mul_(2))(w),
            lambda: torch.func.vmap(lambda a: a.clone().add_(x).mul_(2))(w.view(2, 2)[:, :1]),
        ]
    )()


class Sub(torch.Tensor):
    """An empty subclass."""


class Wrapped(torch.Tensor):
    """Wraps another tensor; has no memory."""

    inner: Any

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        tree = torch.utils._pytree
        given, named = tree.tree_map_only(cls, lambda one: one.inner, (arguments, keywords or {}))
        return tree.tree_map_only(torch.Tensor, cls, function(*given, **named))


@step(2)
def subclasses(state: State, draw: random.Random) -> Any:
    w, x = vector(state, draw), vector(state, draw)
    return draw.choice(
        [
            lambda: (w.as_subclass(Sub) * 2 + x).as_subclass(torch.Tensor),
            lambda: (Wrapped(w * 2) + Wrapped(x)).sin().inner,
            lambda: (Wrapped(w).view(2, 2).t() @ Wrapped(x).view(2, 2)).inner,
            lambda: torch.nn.Parameter(w * 2).detach() + x,
            lambda: torch.complex(w, x).conj().imag * 2,
            lambda: torch._efficientzerotensor((4,), dtype=torch.float64) + w,
        ]
    )()


@step(2)
def modes(state: State, draw: random.Random) -> Any:
    w, x = vector(state, draw), vector(state, draw)
    with draw.choice([torch.no_grad, torch.inference_mode, torch.enable_grad, lambda: torch.autocast("cpu")])():
        y = w * x + 1
        y.mul_(2)
    return y.clone()


# ---- Contexts, threads, forks -----------------------------------------------------------------------------------------------------------


@step(1)
def leaves_and_returns(state: State, draw: random.Random) -> None:
    if not state.eager:
        return
    kind = draw.randrange(3)
    if kind == 0:
        dt.flush(sync=draw.random() < 0.5)
    else:
        with dt.eager(size_threshold=draw.choice([2, 1000]), capacity=draw.choice([1, 100]), always=True):
            floats(state, draw).mul(2)


@step(1)
def threads(state: State, draw: random.Random) -> Any:
    one = floats(state, draw)
    made: list[Any] = []

    def work() -> None:
        with dt.eager(always=True) if state.eager and draw.random() < 0.5 else contextlib.nullcontext():
            made.append(one * 2)
            with contextlib.suppress(RuntimeError):  # an expanded tensor cannot be written
                one.add_(0.5).clamp_(-3, 3)
            made.append(one.sum())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return made


@step(0.02)
def forks(state: State, draw: random.Random) -> None:
    one = floats(state, draw).double()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, struct.pack("d", float((one * 2 + 1).sum())))
        finally:
            os._exit(0)
    os.close(write)
    state.seen.append(struct.unpack("d", os.read(read, 8))[0])
    os.close(read)
    os.waitpid(child, 0)
    one.add_(1)


@step(0.1)
def queues(state: State, draw: random.Random) -> Any:
    queue = torch.multiprocessing.get_context("fork").SimpleQueue()
    one = floats(state, draw).clone()
    queue.put(one)
    one.add_(1).clamp_(-3, 3)
    return [queue.get(), one]
