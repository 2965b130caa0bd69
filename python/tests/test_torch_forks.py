"""dwell.torch in forked processes: workers of data loaders have the parent's memory and none of its threads."""

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch_support import DEVICE, compare, dt, made, outcome, outcomes, torch

# PyTorch and Python warn of forks in processes with threads.
pytestmark = pytest.mark.filterwarnings("ignore")

_SECONDS = 60


class Rows(Dataset):
    """Applies a function to the rows of a tensor."""

    def __init__(self, rows: Any, function: Callable[[Any], Any] = lambda row: row):
        self.rows, self.function = rows, function

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.function(self.rows[index])


class Drawn(IterableDataset):
    """Draws random numbers in the worker."""

    def __iter__(self) -> Iterator[Any]:
        for _ in range(6):
            yield torch.rand(3) * 2 + torch.randn(3)


def batches(dataset: Any, **options: Any) -> list[Any]:
    torch.manual_seed(11)
    loader = DataLoader(dataset, num_workers=2, multiprocessing_context="fork", timeout=_SECONDS, **{"batch_size": 2, **options})
    return list(loader)


def on_host() -> Any:
    torch.manual_seed(3)
    return torch.rand(8, 5) + 0.5


def in_context(row: Any) -> Any:
    with dt.eager():
        return row * 2 + row.sum()


def gradient_of(row: Any) -> Any:
    x = row.clone().requires_grad_()
    (x * x).sum().backward()
    return x.grad


class Shown(Exception):
    pass


def refuses(row: Any) -> Any:
    raise Shown(f"{row.tolist()}")


IN_THE_WORKER: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda row: row,
    "arithmetic": lambda row: torch.relu(row * 2 - 1) + row.sum(),
    "in place": lambda row: row.clone().add_(1).mul_(row),
    "products": lambda row: torch.outer(row, row) @ row,
    "looks": lambda row: (row.sum().item(), row.tolist(), float(row[0] * 3)),
    "memory of NumPy": lambda row: torch.from_numpy(row.numpy().copy()) + 1,
    "counts": lambda row: torch.zeros(1).add_(1).add_(row[:1]),
    "several": lambda row: {"x": row, "y": [row + 1, (row > 1).sum()], "n": int(row[0] > 1)},
    "made of tensors": lambda row: torch.tensor([row[0], row[1] * 2]),
    "a context": in_context,
    "an error": lambda row: row + row[:2],
    "an error of its own": refuses,
    "random": lambda row: row + torch.rand_like(row),
}


@pytest.mark.parametrize("what", IN_THE_WORKER)
def test_workers_compute(what: str) -> None:
    rows = on_host()
    expected, got = outcomes(lambda: batches(Rows(rows, IN_THE_WORKER[what])))
    compare_all(expected, got, what)


def compare_all(expected: Any, got: Any, what: str) -> None:
    if isinstance(expected, Exception):
        # The text contains the worker's traceback.
        assert (type(got), str(got).splitlines()[-1]) == (type(expected), str(expected).splitlines()[-1])
        return
    compare(expected, got, what)
    assert repr(got) == repr(expected), what


def test_operations_collected_before_the_fork_have_run() -> None:
    def program() -> Any:
        x = made(8, 5)
        rows = on_host() * 3 + 1
        rows.add_(rows.sum(0))
        total = x * 2 + 1
        loaded = batches(Rows(rows, lambda row: row * 2))
        total.add_(x)
        return loaded, total, rows

    expected, got = outcomes(program)
    compare(expected, got, "rows")


def test_batches_go_to_the_device() -> None:
    def program() -> Any:
        weight = made(5, 4)
        total = torch.zeros(4, device=DEVICE)
        for batch in batches(Rows(on_host(), lambda row: row + 1), pin_memory=DEVICE == "cuda"):
            total += (batch.to(DEVICE, non_blocking=True) @ weight).sum(0)
        return total

    expected, got = outcomes(program)
    compare(expected, got, "total")


def test_a_step_of_training_between_batches() -> None:
    def program() -> Any:
        torch.manual_seed(5)
        model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        loader = DataLoader(
            Rows(on_host(), lambda row: (row * 2, row.sum())),
            num_workers=2,
            batch_size=2,
            multiprocessing_context="fork",
            persistent_workers=True,
            timeout=_SECONDS,
            pin_memory=DEVICE == "cuda",
        )
        losses = []
        for _ in range(3):
            for x, y in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x.to(DEVICE)).squeeze(1), y.to(DEVICE))
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
        del loader
        return losses, [p.detach() for p in model.parameters()]

    expected, got = outcomes(program)
    compare(expected, got, "losses")


def test_gradients_in_a_worker() -> None:
    def program(trained: bool) -> Any:
        if trained:
            made(3).requires_grad_().sum().backward()
        return batches(Rows(on_host(), gradient_of))

    for trained in (False, True):
        expected, got = outcomes(lambda trained=trained: program(trained))
        compare_all(expected, got, f"trained: {trained}")


def test_random_numbers_are_the_workers() -> None:
    expected, got = outcomes(lambda: batches(Drawn()))
    compare(expected, got, "drawn")
    expected, got = outcomes(lambda: batches(Rows(on_host()), shuffle=True))
    compare(expected, got, "shuffled")


def test_a_loader_from_inside_works_outside() -> None:
    rows = on_host()
    with dt.eager():
        loaded = iter(DataLoader(Rows(rows, in_context), num_workers=2, multiprocessing_context="fork", timeout=_SECONDS))
        first = next(loaded) + 1
    rest = list(loaded)
    expected = [(row * 2 + row.sum())[None] for row in rows]
    compare([expected[0] + 1, *expected[1:]], [first, *rest], "rows")


def test_a_loader_from_outside_works_inside() -> None:
    rows = on_host()
    loaded = iter(DataLoader(Rows(rows, in_context), num_workers=2, multiprocessing_context="fork", timeout=_SECONDS))
    with dt.eager():
        got = [batch + 1 for batch in loaded]
    compare([(row * 2 + row.sum())[None] + 1 for row in rows], got, "rows")


def test_a_worker_flushes_and_has_no_recordings() -> None:
    def asked(row: Any) -> Any:
        dt.flush(sync=True)
        refused = outcome(lambda: dt.record().__enter__())
        dt.shutdown()
        return "forked off" in str(refused), dt.stats()["taken"] >= 0

    with dt.eager():
        made(4) + 1
        got = batches(Rows(on_host(), asked), batch_size=None)
    assert [tuple(one) for one in got] == [(True, True)] * 8


def test_memory_of_a_device_is_an_error_of_pytorchs_in_a_worker() -> None:
    if DEVICE == "cpu":
        pytest.skip("only on a GPU")
    rows = made(4, 5)
    calls = [lambda row: row + 1, lambda row: row.sum().item(), lambda row: row.cpu(), lambda row: row.tolist(), lambda row: row.shape]
    for number, call in enumerate(calls):
        expected, got = outcomes(lambda call=call: batches(Rows(rows, call)))
        compare_all(expected, got, f"call {number}")


def test_children_of_os_fork() -> None:
    """Runs operations collected before the fork once, in the parent."""
    with dt.eager():
        x = torch.ones(8, device=DEVICE) + 1
        host = torch.ones(8) + 1
        pid = os.fork()
        if pid == 0:
            status = 2
            try:
                with dt.eager():
                    status = 0 if (host * 3 + torch.ones(8)).tolist() == [7.0] * 8 else 1
            finally:
                os._exit(status)
        x.add_(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert x.tolist() == [3.0] * 8


def status_of_child(program: Callable[[], bool]) -> int:
    """Returns 0 if `program` returns True in a forked process within half a minute."""
    pid = os.fork()
    if pid == 0:
        status = 2
        try:
            signal.alarm(30)
            status = 0 if program() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_children_do_not_record() -> None:
    x = made(4)
    with dt.record() as recorded:
        y = x * 2
    kept = [recorded()]

    def dropped() -> bool:
        kept.clear()
        gc.collect()
        with dt.eager():
            return (torch.ones(4) * 2 + 1).tolist() == [3.0] * 4

    assert status_of_child(dropped) == 0
    kept[0].replay()
    assert torch.equal(y, x * 2)
    statuses = []

    def record_in_both() -> None:
        with dt.record() as both:
            z = x + 1
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                raise KeyboardInterrupt  # leaves the block
            statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        both().replay()
        assert torch.equal(z, x + 1)

    try:
        record_in_both()
    except KeyboardInterrupt:
        os._exit(0)
    assert statuses == [0]


def test_forks_beside_threads_that_collect() -> None:
    """Forks while other threads collect and flush: the child must not wait for their locks."""
    stop = threading.Event()

    def collects() -> None:
        with dt.eager():
            x = made(16)
            while not stop.is_set():
                x = x * 0.5 + 1
                if float(x[0]) < 0:
                    return

    def computes() -> bool:
        dt.flush(sync=True)
        with dt.eager():
            return (torch.ones(4) * 3 + 1).tolist() == [4.0] * 4

    threads = [threading.Thread(target=collects) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert status_of_child(computes) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
