"""How the extension's sources are shared out to compilers."""

from __future__ import annotations

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
