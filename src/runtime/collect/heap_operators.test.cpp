#include "runtime/collect/heap_operators.hpp"

#include <string>
#include <vector>

#include "jit/object/heap_use.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::runtime {
namespace {

// The whole of them is one image, with the heap's functions and an operator that works with objects.
class HeapOperatorsTest : public jit::CudaFiguresTest {};

TEST_F(HeapOperatorsTest, CompileAndLinkForAGpu) {
  constexpr const char* kObjects = R"(
struct Node { dwell::Field<Node> left; dwell::Field<Node> right; dwell::u32 key; };
DWELL_OBJECT(Node, left, right);
struct Leaf { double value; };
DWELL_OBJECT(Leaf);
DWELL_OPERATOR(objects)(dwell::Group g, dwell::Root<Node> root, dwell::Ref<Leaf> leaf, dwell::Span<double> values) {
  const dwell::Ref<Node> made = g.make<Node>(dwell::Ref<Node>{}, g.at(root)->ref.get(), g.rank());
  g.at(root)->ref.compare_exchange(g, dwell::Ref<Node>{}, made);
  dwell::Array<Node>& many = *g.at(g.make_array<Node>(3));
  many[2].publish(g, many[1].acquire());
  many[1].set(g, made);
  values[g.rank()] = g.at(leaf)->value;
})";
  std::vector<jit::Object> objects;
  for (const HeapText& each : kHeapTexts)
    objects.push_back(compiler().compile(jit::unit_of(each.name, each.text, std::string(each.name) + "_1")));
  objects.push_back(compiler().compile(jit::unit_of("objects", kObjects, "objects_1")));
  std::vector<jit::Opcode> entries;
  for (const jit::Object& each : objects) {
    EXPECT_TRUE(jit::uses_heap(each.bytes));
    entries.emplace_back(&each);
  }
  const jit::Image image = compiler().link(entries);
  EXPECT_EQ(image.entries.size(), objects.size());
  EXPECT_LE(image.resources.registers, 64U) << "more registers cost workers";
}

}  // namespace
}  // namespace dwell::runtime
