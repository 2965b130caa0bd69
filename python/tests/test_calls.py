"""Errors of calls that match no signature: one line each."""

import re

import dwell
import pytest
from dwell import _calls, _dwell


def said(call) -> str:
    with pytest.raises(TypeError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text, text
    return text


def test_an_unknown_keyword_is_answered_with_the_nearest(rt, ops):
    x = rt.allocate(3)
    assert said(lambda: dwell.Runtime(wokers=2)) == "dwell.Runtime takes no argument `wokers`: did you mean `workers`?"
    assert said(lambda: rt.define("f", sorce="")) == "dwell.Runtime.define takes no argument `sorce`: did you mean `source`?"
    assert said(lambda: rt.allocate(3, memry="host")) == "dwell.Runtime.allocate takes no argument `memry`: did you mean `memory`?"
    assert said(lambda: ops.axpy(1.0, x, x, grups=3)) == "operator 'axpy' takes no argument `grups`: did you mean `groups`?"
    assert said(lambda: dwell.Limits(register=40)) == "dwell.Limits takes no argument `register`: did you mean `registers`?"
    assert said(lambda: dwell.Graph().add("n", ops.nothing, grops=2)).endswith("takes no argument `grops`: did you mean `groups`?")
    assert said(lambda: ops.nothing().wait(seconds=1)) == "dwell.Ticket.wait takes no argument `seconds`: by name it takes `timeout`"
    assert said(lambda: rt.sync(now=True)) == "dwell.Runtime.sync takes no argument `now`: it takes none by name"
    assert said(lambda: dwell.sum(None, axs=0)) == "dwell.sum takes no argument `axs`: did you mean `axis`?"


def test_counts_and_types_are_said_of_the_argument(rt, ops):
    assert said(lambda: rt.define("f")) == "dwell.Runtime.define needs `source`"
    assert said(rt.define) == "dwell.Runtime.define needs `name` and `source`"
    assert said(lambda: dwell.Runtime("cpu", 2)) == "dwell.Runtime takes 1 argument by position, 2 were given: name the others"
    assert said(lambda: rt.close(True)) == "dwell.Runtime.close takes no arguments by position, 1 were given: name `now`"
    assert said(lambda: rt.allocate(3, shape=4)) == "dwell.Runtime.allocate got `shape` twice, by position and by name"
    assert said(lambda: rt.define("f", 3)) == "dwell.Runtime.define takes `source` as str, not int"
    assert said(lambda: rt.submit("axpy", 1)) == "dwell.Runtime.submit takes `op` as Operator, not str"
    assert said(lambda: dwell.Runtime(workers="2")) == "dwell.Runtime takes `workers` as int, not str"
    assert said(lambda: dwell.Runtime("cpu", workers=-1)) == "dwell.Runtime cannot take -1 as `workers`"
    assert said(lambda: ops.nothing(groups=1.5)) == "operator 'nothing' takes `groups` as int, not float"


def test_unknown_errors_keep_their_messages(rt, ops):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        dwell.Graph().add(1)  # several signatures
    with pytest.raises(TypeError, match="raised by the callback"):
        rt.capture(raises)
    with pytest.raises(dwell.SignatureMismatch, match="'axpy' takes 3 arguments"):
        ops.axpy(1.0)
    assert _calls.explain(None, "f(): incompatible function arguments. ", [], {}) is None


def raises():
    raise TypeError("raised by the callback")


def test_indirect_calls_are_explained(rt):
    words = "takes no argument `wokers`"
    with pytest.raises(TypeError, match=words):
        dwell.Runtime(**{"wokers": 1})
    with pytest.raises(TypeError, match=words):
        dwell.Runtime.__init__(dwell.Runtime.__new__(dwell.Runtime), wokers=1)

    class Mine(dwell.Runtime):
        pass

    with pytest.raises(TypeError, match=words):
        Mine("cpu", wokers=1)
    define = rt.define
    with pytest.raises(TypeError, match="did you mean `source`"):
        define("f", sorce="")


def test_every_signature_is_understood():
    """Finds the parameters' names in nanobind's docstring of each function."""
    count = 0
    for owner in [_dwell, *(one for one in vars(_dwell).values() if isinstance(one, type))]:
        for name, function in vars(owner).items():
            if type(function).__name__ not in ("nb_func", "nb_method") or name.startswith("__"):
                continue
            for line in function.__doc__.splitlines():
                if not re.match(rf"{name}\(.*\)( -> .*)?$", line):
                    continue
                for one in _calls._parameters(_calls._SIGNATURE.findall(f"    1. {line}")[0]):
                    assert re.fullmatch(r"\w+|\*\*", one.name), line
                    count += 1
    assert count > 300
