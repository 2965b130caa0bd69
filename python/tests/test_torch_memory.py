"""dwell.torch: replaced memory, hidden state of tensors, and PyTorch code that reads memory past the dispatcher."""

import contextlib
import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from conftest import run_python
from torch_support import DEVICE, dt, fallbacks, made, outcomes, tensors_in, torch

only_cpu = pytest.mark.skipif(DEVICE != "cpu", reason="memory of the host")
by_key = pytest.mark.skipif("__import__('os').environ.get('DWELL_TORCH_KEY')", reason="a mode sees other operations")


def same(call: Callable[[], Any], what: Any = None) -> None:
    """Checks that a call does the same in a context as without."""
    expected, got = outcomes(call)
    if isinstance(expected, Exception) or isinstance(got, Exception):
        assert (type(got), str(got)) == (type(expected), str(expected)), what
        return
    for x, y in zip(tensors_in(expected), tensors_in(got), strict=True):
        torch.testing.assert_close(y, x, equal_nan=True, msg=lambda text: f"{what}: {text}")
    if not list(tensors_in(expected)):
        assert got == expected, what


# ---- Memory that is replaced ------------------------------------------------------------------------------------------------------------


def grown_storage() -> Any:
    t = torch.zeros(4)
    storage = t.untyped_storage()
    t.add_(1)
    storage.resize_(4096)
    return t + 1


def shrunken_storage() -> Any:
    t = torch.ones(1024)
    storage, part = t.untyped_storage(), t[:4]
    t.mul_(3)
    y = part + 1
    storage.resize_(16)
    return y, part * 2


def copied_storage() -> Any:
    a, b = torch.ones(4), torch.zeros(4)
    of_a, of_b = a.untyped_storage(), b.untyped_storage()
    a.add_(1)
    of_b.copy_(of_a)
    of_a.fill_(0)
    a.add_(3)
    return a, b, of_b.tolist()


def written_byte() -> Any:
    t = torch.zeros(4, dtype=torch.uint8)
    storage = t.untyped_storage()
    t.add_(7)
    storage[2] = 200
    return t + 1, storage[1]


def storage_of_a_result_that_grows() -> Any:
    x = torch.ones(8)
    storage = x.untyped_storage()
    y = x * 2
    x.mul_(5)
    z = torch.empty(0).set_(storage, 0, (4096,), (1,))
    z[8:] = 0
    return y, x, z[:16]


def resized_results() -> Any:
    x = torch.ones(8)
    x.mul_(3)
    x.resize_(4096)
    x[8:] = 1
    out = torch.empty(2)
    out.add_(out)
    torch.add(x[:64], 1, out=out.resize_(0))
    return x[:16] * 2, out


def data_that_is_swapped() -> Any:
    w = torch.ones(4, requires_grad=True)
    y = (w * 2).detach()
    w.data = torch.full((4,), 7.0)
    z = w * 3
    w.data.add_(1)
    w.detach().set_(torch.zeros(4))
    return y, z.detach(), w.detach() + 0


def shared_module() -> Any:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    model.share_memory()
    return [p.detach() + 0 for p in model.parameters()]


def through_a_pickle() -> Any:
    x = torch.ones(4) * 3
    y = pickle.loads(pickle.dumps(x + 1))
    file = io.BytesIO()
    torch.save({"y": y * 2, "x": x}, file)
    file.seek(0)
    return x, y, torch.load(file)["y"], copy.deepcopy(y + 1)


def through_a_queue() -> Any:
    queue = torch.multiprocessing.get_context("fork").SimpleQueue()
    x = torch.ones(4) * 3
    queue.put(x)
    x.add_(1)
    y = queue.get()
    return x, y, y + 1


REPLACED = {
    "share_memory_": lambda: torch.tensor([1.0, 2, 3, 4, 5]).share_memory_(),
    "share_memory_ of a result": lambda: (made(5).cpu() * 2).share_memory_() + 1,
    "share_memory of a module": shared_module,
    "a file on disk": lambda: (torch.ones(5) * 2).untyped_storage()._share_filename_cpu_()[2],
    "a storage that grows": grown_storage,
    "a storage that shrinks": shrunken_storage,
    "copies of storages": copied_storage,
    "a byte": written_byte,
    "set_ that grows a storage": storage_of_a_result_that_grows,
    "resize_": resized_results,
    ".data": data_that_is_swapped,
    "pickles": through_a_pickle,
    "a queue": through_a_queue,
}


@pytest.mark.parametrize("name", REPLACED)
def test_memory_may_be_replaced(name: str) -> None:
    for _ in range(3):  # freed memory may keep its old values
        same(REPLACED[name], name)


@only_cpu
@by_key
def test_memory_that_is_replaced_unseen_is_an_error() -> None:
    t = torch.zeros(4)
    storage = t.untyped_storage()
    message = "memory of a tensor was replaced.*call dwell.torch.flush"
    y = made(4)
    with dt.eager():
        y + t  # reads t, so that nothing guards it
        torch._C.StorageBase.resize_(storage, 1 << 20)  # bypasses the watched functions
        with pytest.raises(RuntimeError, match=message):
            dt.flush()
        assert torch.equal(y + 1, made(4) + 1), "it goes on"


def swapped_by_data(w: Any) -> None:
    w.data = torch.zeros(4, device=DEVICE)


def swapped_by_set(w: Any) -> None:
    w.detach_().set_(torch.zeros(4, device=DEVICE))


@pytest.mark.parametrize("swap", [swapped_by_data, swapped_by_set])
@pytest.mark.parametrize("use", [lambda w: w * 2, lambda w: w.view(2, 2).t() * 2], ids=["itself", "a view"])
def test_a_recording_of_a_tensor_with_other_memory_is_not_replayed(swap: Any, use: Any) -> None:
    w, other = made(4), made(4)
    with dt.record() as recorded:
        y = use(w)
        other.add_(1)
    recording = recorded()
    recording.replay()
    torch.testing.assert_close(y, use(made(4)))
    gone = other.data
    del gone
    recording.replay()
    swap(w)
    with pytest.raises(RuntimeError, match=r"shape \[4\] and type Float that the recording names has been given other memory"):
        recording.replay()


# ---- Hidden state -----------------------------------------------------------------------------------------------------------------------


class Wrapper(torch.Tensor):
    """Has no memory of its own."""

    inner: Any

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)  # type: ignore[attr-defined]
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        unwrapped = torch.utils._pytree.tree_map_only(cls, lambda one: one.inner, (arguments, keywords or {}))
        return torch.utils._pytree.tree_map_only(torch.Tensor, cls, function(*unwrapped[0], **unwrapped[1]))


HIDDEN = {
    "jacfwd": lambda w, x: torch.func.jacfwd(lambda w: x @ w)(w),
    "hessian": lambda w, x: torch.func.hessian(lambda w: (x @ w).tanh() * w.sum())(w),
    "jvp": lambda w, x: torch.func.jvp(lambda w: x @ w, (w,), (x,)),
    "jacrev": lambda w, x: torch.func.jacrev(lambda w: (x * w).softmax(0))(w),
    "vmap": lambda w, x: torch.func.vmap(lambda a: (a * w).sum() + a @ x)(torch.stack([w, x])),
    "zeros": lambda w, x: [
        torch._efficientzerotensor((4,)) + x,
        torch.zeros(4).copy_(torch._efficientzerotensor((4,))),
        x * torch._efficientzerotensor((4,)),
    ],
    "zeros that are read": lambda w, x: [x.copy_(torch._efficientzerotensor((4,))) * 2, torch._efficientzerotensor((4,)).sum()],
    "products of zeros": lambda w, x: [torch.dot(x, torch._efficientzerotensor((4,))), torch._efficientzerotensor((4, 4)) @ x],
    "negative": lambda w, x: [
        torch._neg_view(x) * w,
        torch.add(x, torch._neg_view(w)),
        torch._neg_view(x + w).sum(),
        torch.ones(4).add_(torch._neg_view(x)),
    ],
    "negative, imaginary": lambda w, x: [
        torch.complex(x, w).conj().imag * 2,
        torch.complex(x, w).conj().real.sin(),
        torch.ones(4).copy_(torch.complex(x, w).conj().imag),
    ],
    "conjugated": lambda w, x: torch.complex(x, w).conj() * 2,
    "named": lambda w, x: not hasattr(w, "refine_names")
    or [(w.refine_names("N") + x.refine_names("N")).names == ("N",), (w.refine_names("N") * 2).rename(None)],
    "sparse": lambda w, x: [
        torch.sparse_coo_tensor(torch.tensor([[0, 2]]), (w * 2)[:2], (4,)).to_dense(),
        (x * 3).to_sparse().values() + 1,
    ],
    "sparse sums": lambda w, x: torch.sparse.sum(torch.sparse_coo_tensor(torch.tensor([[0, 2]]), (w * 2)[:2], (4,))),
    "nested": lambda w, x: torch.nested.nested_tensor([w * 2, x[:2] + 1]).relu().to_padded_tensor(0.0),
    "nested, jagged": lambda w, x: (torch.nested.nested_tensor([w * 2, x[:2] + 1], layout=torch.jagged) * 2).to_padded_tensor(0.0),
    "quantized": lambda w, x: torch.quantize_per_tensor(w * 2, 0.1, 0, torch.quint8).dequantize() + x,
    "meta": lambda w, x: (w.to("meta") * 2).shape,
    "inference": lambda w, x: inference(w, x),
    "a wrapper": lambda w, x: (Wrapper(w) * 2 + Wrapper(x + 1)).inner,
    "a storage without memory": lambda w, x: without_memory(x),
    "mkldnn": lambda w, x: (w.to_mkldnn() * 2).to_dense() if torch.backends.mkldnn.is_available() else 0,
    "functional": lambda w, x: torch.func.functionalize(lambda a: a.clone().add_(1).view(2, 2).mul_(a.view(2, 2)))(x * w),
    "a mode": lambda w, x: faked(w),
}


def inference(w: Any, x: Any) -> Any:
    with torch.inference_mode():
        y = w * x
        y.add_(1)
    return y + 0


def without_memory(x: Any) -> Any:
    y = (x * 2).clone()
    y.untyped_storage().resize_(0)
    return y.shape, y.untyped_storage().nbytes()


def faked(w: Any) -> Any:
    with torch._subclasses.FakeTensorMode() as mode:
        return tuple((mode.from_tensor(w) * 2 + 1).shape)


@only_cpu
@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.filterwarnings("ignore")
def test_hidden_state_is_seen(name: str) -> None:
    same(lambda: HIDDEN[name](made(4), made(4) + 1), name)


# ---- Reads past the dispatcher ----------------------------------------------------------------------------------------------------------


class Pair:
    """A sequence that is no list."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int) -> Any:
        return self.items[at]


def ctc(lengths: Any) -> Any:
    torch.manual_seed(1)
    probabilities = torch.randn(6, 2, 5).log_softmax(2)
    targets = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32) * 1
    return torch.nn.functional.ctc_loss(probabilities, targets, lengths(6), lengths(2))


def packed() -> Any:
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    lengths = torch.tensor([4, 2, 1]) + 1
    rows = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(5, 3, 3) * 2, lengths)
    return torch.nn.utils.rnn.pad_packed_sequence(lstm(rows)[0])


READS: dict[str, Callable[[Any], Any]] = {
    "a constructor": lambda x: torch.Tensor([x[1], x[2]]),
    "a typed constructor": lambda x: torch.FloatTensor([x[1], [x[2]][0]]),
    "a sequence": lambda x: torch.tensor(Pair(x[1], x[2])),
    "a sequence of sequences": lambda x: torch.as_tensor(Pair(Pair(x[1], x[2]), Pair(x[3], x[0]))),
    "new": lambda x: x.new([x[1], x[2]]),
    "new_tensor": lambda x: x.new_tensor(Pair(x[1], x[2])),
    "an index of tensors": lambda x: (x * 2)[[(x[1] * 0).long(), (x[1] * 0 + 2).long()]],
    "a value of tensors": lambda x: x.clone().index_put((torch.tensor([0, 1]),), torch.Tensor([x[2], x[3]])),
    "max_pool1d": lambda x: torch.nn.functional.max_pool1d(x[None], 2),
    "max_pool1d of a result": lambda x: torch.nn.functional.max_pool1d((x * 2)[None], 2) + 1,
    "ctc_loss": lambda x: ctc(lambda n: torch.full((2,), n, dtype=torch.int32)),
    "ctc_loss of int64": lambda x: ctc(lambda n: torch.full((2,), n, dtype=torch.int64) * 1),
    "ctc_loss of lists": lambda x: ctc(lambda n: (n, n)),
    "apply_": lambda x: (x * 1).apply_(lambda number: number + 1),
    "map_": lambda x: (x * 1).map_(x * 2, lambda a, b: a + b),
    "map2_": lambda x: (x * 1).map2_(x * 2, x * 3, lambda a, b, c: a + b + c),
    "tensor_split": lambda x: torch.tensor_split(x, torch.tensor([1, 2]) + 1),
    "tensor_split by name": lambda x: torch.tensor_split(x, tensor_indices_or_sections=torch.tensor(2) * 1),
    "format": lambda x: f"{x[1]:.3f} {x[2]!r} {int(x[1])} {bool(x[0])} {[10, 20, 30, 40][(x[0] * 0 + 1).long()]}",
    "range": lambda x: list(range((x[0] * 0 + 3).int())),
    "arange": lambda x: torch.arange(x[0] * 0 + 3),
    "linspace": lambda x: torch.linspace(x[0] * 1, x[3] * 1, 5),
    "full": lambda x: torch.full((2,), x[1] * 2),
    "a number": lambda x: torch.add(torch.ones(2), torch.ones(2), alpha=x[1] * 2),
    "clamp": lambda x: torch.ones(4).clamp(max=(x[0] * 0.25)),
    "in": lambda x: (x[1] + 0).item() in x,
    "to numpy": lambda x: torch.from_numpy((x * 2).numpy() + 1),
    "dlpack": lambda x: torch.from_dlpack(x * 2) + 1,
    "memory that others know": lambda x: twice(x),
    "packed rows": lambda x: packed(),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, torch.tensor([0, 1, 2, 0]) + 1),
    "unique": lambda x: torch.unique_consecutive((x * 0).int()),
    "histc": lambda x: torch.histogram(x * 2, 3)[0],
    "combinations": lambda x: torch.combinations(x * 2),
    "block_diag": lambda x: torch.block_diag(x * 2, x[None] * 3),
    "einsum": lambda x: torch.einsum("i,j->ij", x * 2, x),
    "embedding_bag": lambda x: torch.nn.functional.embedding_bag(torch.tensor([0, 1]) * 1, x.view(4, 1) * 2, torch.tensor([0, 1]) * 1),
    "grid_sample": lambda x: torch.nn.functional.grid_sample(x.view(1, 1, 2, 2) * 2, torch.zeros(1, 1, 1, 2) * 1, align_corners=True),
    "a sparse matrix": lambda x: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2]) * 1, torch.tensor([0, 1]) * 1, x[:2] * 2, (2, 2)
    ).to_dense(),
    "quantiles": lambda x: torch.quantile(x * 2, torch.tensor([0.5]) * 1),
    "an allclose": lambda x: torch.allclose(x * 2, x + x),
}


def twice(x: Any) -> Any:
    """Uses one memory through several storages."""
    a = x * 2
    b = torch.from_dlpack(a)
    c = torch.from_numpy(a.numpy())
    a.add_(1)
    sorted_b = b.sort()[0]
    c.mul_(2)
    return sorted_b, a.cumprod(0), torch.frombuffer(bytearray(8), dtype=torch.int32) + 1


@only_cpu
@pytest.mark.parametrize("name", READS)
@pytest.mark.filterwarnings("ignore")
def test_reads_past_the_dispatcher_are_seen(name: str) -> None:
    same(lambda: READS[name](made(4) + 0.5), name)


@only_cpu
@by_key
def test_code_that_reads_memory_itself_is_called_again() -> None:
    before = fallbacks()
    same(lambda: torch.ops.aten.max_pool1d((made(4) * 2)[None], [2]))
    same(
        lambda: torch.ops.aten.ctc_loss.Tensor(
            made(6, 2, 5).log_softmax(2), made(2, 2).int() + 1, torch.full((2,), 6).int(), torch.full((2,), 2).int()
        )
    )
    assert sum((fallbacks() - before).values()) > 0


@only_cpu
@by_key
def test_unseen_reads_are_errors() -> None:
    """Reads in a thread older than the first context."""
    done = run_python(
        """
        import threading, torch, dwell.torch as dt
        begin, go_on = threading.Event(), threading.Event()
        heard = []
        def early():
            begin.wait()
            try:
                heard.append(x.sort()[0].tolist())
            except RuntimeError as error:
                heard.append(str(error))
            go_on.set()
        thread = threading.Thread(target=early)
        thread.start()
        with dt.eager():
            x = torch.ones(4) * 2
            begin.set()
            go_on.wait()
            thread.join()
        print(heard[0])
        """
    )
    assert "not computed yet" in done.stdout
    assert "dwell.torch.flush(sync=True)" in done.stdout


@only_cpu
def test_profilers_may_note_addresses() -> None:
    with dt.eager(), torch.profiler.profile(record_shapes=True, profile_memory=True):
        x = made(4) * 2
        y = x + 1
    assert torch.equal(y, made(4) * 2 + 1)


@pytest.mark.skipif(DEVICE == "cpu", reason="kernels that are compiled for a GPU")
def test_jiterator_kernels_see_what_was_collected() -> None:
    function = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice_more(T x) { return x * T(2) + T(1); }")
    with contextlib.ExitStack() as stack:
        stack.enter_context(dt.eager())
        y = function(made(64) * 3) + 1
    torch.testing.assert_close(y, made(64) * 6 + 2)


def test_is_shared_works_on_pending_tensors() -> None:
    """PyTorch reads the memory's address: an error there ends the process."""
    with dt.eager():
        x = torch.ones(4) + 1
        assert not x.untyped_storage().is_shared()
        assert x.tolist() == [2, 2, 2, 2]


def test_an_unsafe_split_reads_nothing() -> None:
    """Its schema does not say that it returns views."""
    x = made(12)
    with dt.eager():
        before = sum(dt.stats()["flushed"].values())
        a, b, c = (x * 2).unsafe_chunk(3)
        total = a + b.unsafe_split_with_sizes([1, 3])[1].sum() + c
        assert sum(dt.stats()["flushed"].values()) == before
    torch.testing.assert_close(total, 2 * (x[:4] + x[5:8].sum() + x[8:]))
