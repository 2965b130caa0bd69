"""The benchmarks of PyTorch: they run, and detect wrong results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch_support  # noqa: E402

DEVICE = "cuda:0" if torch_support.DEVICE == "cuda" else torch_support.DEVICE
BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import torch_loops  # noqa: E402
import torch_programs  # noqa: E402

# On the CPU, torch.nn.LSTM and GRU call operations that dwell does not record.
NOT_RECORDED = ("torch.nn.LSTM", "torch.nn.GRU")


def run(name: str, folder: Path, *arguments: str) -> tuple[dict, str]:
    report = folder / "report.json"
    command = [sys.executable, str(BENCH / name), "--device", DEVICE, "--json", str(report), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env={**os.environ, "DWELL_BENCH": "short"})
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    (benchmark,) = json.loads(report.read_text())["benchmarks"]
    return benchmark, done.stdout


def bench() -> torch_loops.Bench:
    return torch_loops.Bench(DEVICE, short=True, budget=100, compile_seconds=1)


def test_loops_times_each_program_by_each_side(tmp_path: Path) -> None:
    benchmark, printed = run("torch_loops.py", tmp_path)
    assert benchmark["right"]
    timed = {(row["what"], row["by"]) for row in benchmark["rows"]}
    left_out = {(one["what"], one["by"]) for one in benchmark["left_out"]}
    for loop in torch_programs.loops(short=True):
        assert loop.name in printed
        for by in ("eager", "dwell.torch", "dwell recorded"):
            if by != "dwell recorded" or not loop.name.endswith(NOT_RECORDED):
                assert (loop.name, by) in timed
        assert (loop.name, "torch.compile") in left_out
        assert all((loop.name, side.by) in timed | left_out for side in bench().sides)
    for row in benchmark["rows"]:
        assert row["count"] > 0 and row["min"] <= row["p50"] <= row["p99"] <= row["max"]


def test_loops_names_what_a_spent_budget_leaves_out(tmp_path: Path) -> None:
    benchmark, printed = run("torch_loops.py", tmp_path, "--budget", "0")
    assert benchmark["rows"] == []
    assert [one["what"] for one in benchmark["left_out"]] == [loop.name for loop in torch_programs.loops(short=True)]
    assert "MLP training step, batch 64: left out: the budget is spent" in printed


def test_loops_sees_a_result_that_does_not_follow_its_input() -> None:
    def stale(place: torch_programs.Place, _: int) -> torch_programs.Program:
        x = place.input(8)
        kept = []

        def core() -> torch.Tensor:
            if place.dtype == torch.float32 and kept:
                return kept[0]
            kept.append(torch.sin(x))
            return kept[-1]

        return torch_programs.Program(place, core, place.begin)

    made = bench()
    made.measure(torch_programs.Loop("a stale result", stale))
    assert any("a stale result: eager is wrong" in text for text in made.wrong)
    assert all(row["wrong"] for row in made.rows if row["by"] == "eager")


def test_loops_leaves_out_a_peer_that_fails_and_reports_a_side_of_dwell_that_does() -> None:
    def failing(by: str, peer: bool) -> torch_loops.Side:
        def prepare(program: torch_programs.Program) -> torch_loops.Work:
            raise ValueError("there is none")

        return torch_loops.Side(by, prepare, peer=peer)

    made = bench()
    made.sides = [made.sides[0], failing("a peer", True), failing("ours", False)]
    made.measure(next(loop for loop in torch_programs.loops(short=True) if loop.name.startswith("control")))
    assert [row["by"] for row in made.rows] == ["eager"]
    assert [(one["by"], one["why"]) for one in made.left_out] == [
        ("a peer", "ValueError: there is none"),
        ("ours", "ValueError: there is none"),
    ]
    assert [text.endswith("ours: ValueError: there is none") for text in made.wrong] == [True]


def test_limited_ends_what_takes_too_long() -> None:
    with pytest.raises(torch_loops.TooLong), torch_loops.limited(0.1):
        while True:
            pass


def test_kalman_filter_inverts() -> None:
    """Newton's iterations converge: the filter equals one with an exact inverse."""
    place = torch_programs.Place("cpu", torch.float64)
    program = torch_programs.kalman(place, 20)
    program.begin(1)
    f, h, q, r, _, start_x, p, z = place.tensors[1:9]
    x = start_x
    for step in range(20):
        x, p = f @ x, f @ p @ f.t() + q
        gain = p @ h.t() @ torch.linalg.inv(h @ p @ h.t() + r)
        x, p = x + gain @ (z[step] - h @ x), p - gain @ h @ p
    for got, expected in zip(program.core(), (x, p), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


def test_lstm_written_out_is_that_of_pytorch() -> None:
    results = []
    for make in (torch_programs.lstm_written_out(128), torch_programs.recurrent(torch.nn.LSTM, 128)):
        program = make(torch_programs.Place("cpu", torch.float64), 5)
        program.begin(1)
        with torch.no_grad():
            results.append([tensor.flatten() for tensor in program.core()])
    torch.testing.assert_close(*results)


def test_eager_runs(tmp_path: Path) -> None:
    benchmark, _ = run("torch_eager.py", tmp_path, "--only", "batch 1,")
    assert benchmark["right"]
    assert {row["by"] for row in benchmark["rows"]} >= {"eager", "dwell.torch", "dwell recorded"}
