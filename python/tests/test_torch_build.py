"""The extension's build: shares of sources for compilers, and the extension of a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from dwell.torch import _build

SOURCES = sorted(source.stem for source in _build._SOURCES.glob("*.cpp"))


def test_every_weight_is_of_a_source():
    assert set(_build._SECONDS) <= set(SOURCES)


@pytest.mark.parametrize("count", [1, 2, 3, 16, 1000])
def test_each_source_is_in_one_share(count: int):
    shares = _build._shares(SOURCES, count)
    assert len(shares) == min(count, len(SOURCES))
    assert all(shares)
    assert sorted(name for share in shares for name in share) == SOURCES


def test_shares_take_about_as_long():
    seconds = [sum(_build._SECONDS.get(name, _build._OTHERS_SECONDS) for name in share) for share in _build._shares(SOURCES, 2)]
    assert max(seconds) - min(seconds) <= _build._OTHERS_SECONDS


def test_units_include_each_source_once(tmp_path):
    lines = [line for unit in _build._units(str(tmp_path)) for line in unit.read_text().splitlines()]
    assert sorted(lines) == [f'#include "{_build._SOURCES / name}.cpp"' for name in SOURCES]


def test_the_extension_of_a_wheel_comes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(_build, "_PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setattr(_build, "_make", lambda compiler, target, movable: Path(target).write_text(f"movable: {movable}"))
    prebuilt = _build.prebuild(tmp_path / "prebuilt")
    assert prebuilt.read_text() == "movable: True"
    assert _build.build() == prebuilt
    prebuilt.rename(prebuilt.with_name("dwell_torch-1.0-cp311-abi1.so"))  # of another release
    monkeypatch.setattr(_build, "_LIBRARY", tmp_path / "none")
    with pytest.raises(_build.BuildError, match=r"is built with the library"):
        _build.build()


def test_a_movable_extension_names_no_folder():
    linked = _build._linking("g++", [], Path("made.so"), movable=True)
    assert not [word for word in linked if "rpath" in word]
