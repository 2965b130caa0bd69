"""The heap of operators, from Python."""

import gc

import dwell
import pytest
from conftest import device

numpy = pytest.importorskip("numpy")

NODE = """
struct Node { dwell::Field<Node> next; dwell::u32 number; };
DWELL_MOVABLE(Node, next);
"""
# Puts a list of `count` nodes into the root; of `waste` times as many more, nothing remains.
FILL = (
    NODE
    + """
DWELL_OPERATOR(fill)(dwell::Group g, dwell::Root<Node> root, dwell::u32 count, dwell::u32 waste) {
  if (g.rank() != 0) return;
  dwell::Ref<Node> list{};
  for (dwell::u32 i = 0; i < count; ++i) {
    list = g.make<Node>(list, i);
    for (dwell::u32 k = 0; k < waste; ++k) g.make<Node>(dwell::Ref<Node>{}, i);
  }
  g.at(root)->ref.publish(g, list);
}"""
)
ADD = (
    NODE
    + """
DWELL_OPERATOR(add)(dwell::Group g, dwell::Root<Node> root, dwell::Span<dwell::u32> sum) {
  if (g.rank() != 0) return;
  sum[0] = 0;
  for (auto at = g.at(root)->ref.acquire(g); at; at = g.at(at)->next.get(g)) sum[0] += g.at(at)->number;
}"""
)
NUMBER = (
    NODE
    + """
DWELL_OPERATOR(number)(dwell::Group g, dwell::Ref<Node> node, dwell::Span<dwell::u32> to) {
  if (g.rank() == 0) to[0] = node ? g.at(node)->number : 77u;
}"""
)
SCALE = """
DWELL_OPERATOR(scale)(dwell::Group g, dwell::Ref<float> values, dwell::u32 count, float factor) {
  for (dwell::u32 i : g.range(count)) g.at(values)[i] *= factor;
}"""
GIVE = """
DWELL_OPERATOR(give)(dwell::Group g, dwell::Span<dwell::Ref<dwell::u32>> to) {
  for (dwell::u32 i : g.range(to.size())) to[i] = g.make<dwell::u32>(i * i);
}"""


@pytest.fixture
def runtime():
    # A loop that rests compacts the heap by itself.
    with dwell.Runtime(device(), heap_reserve=256 << 20, idle=60.0) as made:
        yield made


def live(heap):
    statistics = heap.statistics()
    return statistics["large"] + sum(one["live"] for one in statistics["classes"])


def test_memory_of_the_host(runtime):
    heap = runtime.heap
    ref = heap.make(numpy.arange(1000, dtype="float32"))
    scale = runtime.define("scale", SCALE)
    scale(ref, 1000, 3.0).wait()
    assert numpy.array_equal(heap.read(ref, "f4", 1000), numpy.arange(1000, dtype="float32") * 3)
    heap.write(ref, [7, 8], "f4", offset=8)
    assert heap.read(ref, "f4", offset=8) == 7.0
    assert heap.read(ref, "f4", 2, offset=8).tolist() == [7.0, 8.0]
    pair = heap.make((3, 2.5), [("count", "u4"), ("value", "f8")])
    assert heap.read(pair, [("count", "u4"), ("value", "f8")])["value"] == 2.5
    assert live(heap) == 2
    heap.free(ref)
    heap.free([pair, None])
    assert live(heap) == 0
    assert heap.verify()["mistakes"] == 0


def test_many_at_once(runtime):
    heap = runtime.heap
    refs = heap.allocate(100, count=500)
    assert refs.dtype == numpy.uint32
    assert len(set(refs.tolist())) == 500
    assert live(heap) == 500
    heap.free(refs)
    assert live(heap) == 0
    aligned = heap.allocate(100, alignment=256)
    assert aligned.unit * 16 % 256 == 0
    heap.free(int(aligned))


def test_references_that_operators_give(runtime):
    give = runtime.define("give", GIVE)
    to = runtime.array(numpy.zeros(64, "uint32"))
    give(to).wait()
    refs = to.read()
    assert [runtime.heap.read(ref, "u4") for ref in refs] == [i * i for i in range(64)]
    runtime.heap.free(refs)
    assert live(runtime.heap) == 0


def test_objects_are_collected_and_moved(runtime):
    heap = runtime.heap
    fill = runtime.define("fill", FILL)
    add = runtime.define("add", ADD)
    root = heap.root("list")
    assert root == heap.root("list")
    total = runtime.array(numpy.zeros(1, "uint32"))
    fill(root, 3000, 9).wait()
    assert heap.collect()["freed"] == 27000
    types = {one["name"]: one["objects"] for one in heap.census()["types"]}
    assert types == {"Node": 3000, "cell": 1}
    used = heap.statistics()["used"]
    done = heap.compact()
    assert done["moved"] > 0
    assert heap.statistics()["used"] == used - done["freed_bytes"]
    add(root, total).wait()
    assert total.read()[0] == 3000 * 2999 // 2
    heap.set_root(root)
    assert not heap.hold_root(root)
    heap.collect()
    assert live(heap) == 1
    assert heap.verify()["mistakes"] == 0


def test_a_held_object_stays(runtime):
    heap = runtime.heap
    fill = runtime.define("fill", FILL)
    number = runtime.define("number", NUMBER)
    root = heap.root("list")
    to = runtime.array(numpy.zeros(1, "uint32"))
    fill(root, 5, 0).wait()
    held = heap.hold_root(root)
    heap.set_root(root, None)
    assert heap.collect()["freed"] == 0
    number(held, to).wait()
    assert to.read()[0] == 4
    number(dwell.Ref(), to).wait()
    assert to.read()[0] == 77
    del held
    gc.collect()
    assert heap.collect()["freed"] == 5


def test_mistakes(runtime):
    heap = runtime.heap
    ref = heap.allocate(64)
    heap.free(ref)
    with pytest.raises(dwell.TaskFailed, match="freed memory that is not allocated"):
        heap.free(ref)
    with pytest.raises(ValueError, match="power of two"):
        heap.allocate(64, alignment=24)
    with pytest.raises(dwell.InvalidArgument, match="names nothing"):
        heap.read(dwell.Ref(), "u4")
    with pytest.raises(dwell.SignatureMismatch, match=r"a dwell\.Ref, None, or a number"):
        heap.free("ref")
    with pytest.raises(dwell.OutOfMemory, match="no room"):
        heap.allocate(1 << 40)
    with pytest.raises(ValueError, match="heap_checks is"):
        dwell.Runtime(device(), heap_checks="some")


def test_full_checks():
    with dwell.Runtime(device(), heap_checks="full", heap_reserve=64 << 20) as runtime:
        ref = runtime.heap.allocate(10)
        runtime.heap.write(ref, b"12345678901", "S11")
        with pytest.raises(dwell.TaskFailed, match="behind its end"):
            runtime.heap.free(ref)


def test_a_closed_runtime_has_no_heap(runtime):
    heap = runtime.heap
    ref = heap.allocate(64)
    runtime.close()
    with pytest.raises(dwell.Closed, match="closed"):
        heap.read(ref, "u4")
    assert repr(ref) == f"dwell.Ref({ref.unit})"
