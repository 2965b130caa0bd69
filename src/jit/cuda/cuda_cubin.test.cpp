// Resource figures of an image, compiled and linked with the real loop as for a device. Needs NVRTC and nvJitLink but no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include <dwell/doctor.hpp>
#include <dwell/error.hpp>

#include "jit/cuda/cuda_compiler.hpp"
#include "jit/object/cubin.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

Unit nothing_unit() { return unit_of("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}\n", "nothing_1"); }

// Uses 16 bytes of shared memory an element, in two variables.
Unit tile_unit() {
  return unit_of("tile",
                 "DWELL_OPERATOR(tile)(dwell::Group g, dwell::Span<float> y) {\n"
                 "  __shared__ float a[1024];\n"
                 "  __shared__ double b[100];\n"
                 "  a[g.rank()] = y[g.rank()];\n"
                 "  b[g.rank() % 100] = y[0];\n"
                 "  g.sync();\n"
                 "  y[g.rank()] = a[127 - g.rank()] + static_cast<float>(b[3]);\n"
                 "}\n",
                 "tile_1");
}

Unit barrier_unit() {
  return unit_of("barrier",
                 "DWELL_OPERATOR(barrier)(dwell::Group g, dwell::Span<float> y) {\n"
                 "  y[g.rank()] = 1;\n"
                 "  asm volatile(\"barrier.sync 12, 128;\" ::: \"memory\");\n"
                 "  y[127 - g.rank()] = 2;\n"
                 "}\n",
                 "barrier_1");
}

Unit table_unit() {
  return unit_of("table",
                 "__constant__ float weights[500] = {1, 2, 3};\n"
                 "__constant__ double offsets[50] = {4, 5, 6};\n"
                 "DWELL_OPERATOR(table)(dwell::Group g, dwell::Span<float> y, int k) {\n"
                 "  y[g.rank()] = weights[k] + static_cast<float>(offsets[k % 50]);\n"
                 "}\n",
                 "table_1");
}

// Uses all its resources in a function that is not inlined.
Unit caller_unit() {
  return unit_of("caller",
                 "__attribute__((noinline)) void helper(float* y, unsigned rank) {\n"
                 "  float v[100];\n"
                 "  for (int i = 0; i < 100; ++i) v[i] = y[i] * rank;\n"
                 "  for (int i = 0; i < 100; ++i) y[i] = v[static_cast<int>(y[i]) % 100];\n"
                 "  asm volatile(\"barrier.sync 7, 128;\" ::: \"memory\");\n"
                 "}\n"
                 "DWELL_OPERATOR(caller)(dwell::Group g, dwell::Span<float> y) { helper(&y[0], g.rank()); }\n",
                 "caller_1");
}

class CudaCubinTest : public CudaTest, public testing::WithParamInterface<const char*> {
 protected:
  static CudaCompiler& compiler() { return compiler_for(GetParam()); }
  static Image image_of(const std::vector<Unit>& units) {
    std::vector<Object> objects;
    for (const Unit& unit : units) objects.push_back(compiler().compile(unit));
    std::vector<Opcode> table;
    for (const Object& object : objects) table.emplace_back(&object);
    return compiler().link(table);
  }
};

constexpr const char* kArchitectures[] = {"sm_90", "sm_75", "sm_120"};
INSTANTIATE_TEST_SUITE_P(For, CudaCubinTest, testing::ValuesIn(kArchitectures, kArchitectures + (kSanitized ? 1 : 3)),
                         [](const testing::TestParamInfo<const char*>& at) { return std::string(at.param); });

TEST_P(CudaCubinTest, SharedMemorySumsAndIsKnownPerOperator) {
  const Image alone = image_of({nothing_unit()});
  const Image image = image_of({nothing_unit(), tile_unit(), hungry_unit("hungry_1")});
  ASSERT_EQ(image.entries.size(), 3U);
  EXPECT_EQ(image.entries[0].symbol, "nothing_1");
  EXPECT_EQ(image.entries[0].resources.shared_bytes, 0U);
  EXPECT_EQ(image.entries[1].resources.shared_bytes, 4096U + 800U);
  EXPECT_EQ(image.entries[2].resources.shared_bytes, 4096U);
  EXPECT_EQ(image.resources.shared_bytes, alone.resources.shared_bytes + 4096 + 800 + 4096);
}

TEST_P(CudaCubinTest, ConstantsSumAndAreKnownPerOperator) {
  const Image image = image_of({nothing_unit(), table_unit()});
  EXPECT_EQ(image.entries[0].resources.constant_bytes, 0U);
  EXPECT_EQ(image.entries[1].resources.constant_bytes, 2000U + 400U);
  const std::uint32_t table_of_operators = 3 * 8;
  EXPECT_GE(image.resources.constant_bytes, table_of_operators + 2400);
  EXPECT_LE(image.resources.constant_bytes, table_of_operators + 2400 + 8) << "parameters of the kernel are not counted";
}

TEST_P(CudaCubinTest, BarriersCountUpToTheHighestUsed) {
  const Image alone = image_of({nothing_unit()});
  EXPECT_EQ(alone.entries[0].resources.barriers, 0U);
  EXPECT_EQ(alone.resources.barriers, 3U) << "one wakes the group, one holds it together";
  const Image image = image_of({nothing_unit(), barrier_unit()});
  EXPECT_EQ(image.entries[1].resources.barriers, 13U);
  EXPECT_EQ(image.resources.barriers, 13U);
}

TEST_P(CudaCubinTest, RegistersAndStackAreKnownPerOperator) {
  const Image image = image_of({nothing_unit(), hungry_unit("hungry_1")});
  const Resources& small = image.entries[0].resources;
  const Resources& large = image.entries[1].resources;
  EXPECT_LT(small.registers, 40U);
  EXPECT_EQ(small.stack_bytes, 0U);
  EXPECT_GT(large.registers, 100U);
  EXPECT_GE(large.stack_bytes, 480U) << "120 values that are indexed at run time";
  EXPECT_EQ(image.resources.registers, large.registers);
  EXPECT_GT(image.resources.stack_bytes, large.stack_bytes) << "the loop's own and the entry's";
}

TEST_P(CudaCubinTest, CalleesAreCounted) {
  const Image image = image_of({caller_unit()});
  EXPECT_EQ(image.entries[0].resources.barriers, 8U);
  EXPECT_GE(image.entries[0].resources.stack_bytes, 400U);
}

TEST_P(CudaCubinTest, ListsArchitectureKernelsAndOperators) {
  const Image image = image_of({nothing_unit(), tile_unit()});
  const auto cubin = Cubin::open(image.bytes);
  ASSERT_TRUE(cubin);
  EXPECT_EQ("sm_" + std::to_string(cubin->architecture()), GetParam());
  EXPECT_THAT(cubin->kernels(), testing::ElementsAre("dwell_resident"));
  EXPECT_THAT(cubin->entries(), testing::UnorderedElementsAre("nothing_1", "tile_1"));
  EXPECT_EQ(image.resources.threads, 160U);
  EXPECT_EQ(image.entries[0].resources.threads, 0U);
  EXPECT_FALSE(cubin->kernel("other"));
  EXPECT_FALSE(cubin->entry("other"));
}

TEST_P(CudaCubinTest, AgreesWithTheAssemblersReport) {
  Unit named = tile_unit();
  named.exports[0].symbol = "dwell_tile_0123456789abcdef0123456789abcdef";
  const Image image = image_of({nothing_unit(), named});
  const ImageReport report = examine_image(image.bytes);
  EXPECT_EQ(report.target, GetParam());
  ASSERT_EQ(report.kernels.size(), 1U);
  const ImageReport::Kernel& kernel = report.kernels[0];
  EXPECT_EQ(kernel.function.name, "dwell_resident");
  EXPECT_EQ(kernel.function.registers, image.resources.registers);
  EXPECT_EQ(kernel.function.shared_bytes, image.resources.shared_bytes);
  EXPECT_EQ(kernel.threads, 160U);
  ASSERT_TRUE(kernel.workers);
  EXPECT_GE(*kernel.workers, 1U);
  EXPECT_LE(*kernel.workers, 8U);
  ASSERT_EQ(report.operators.size(), 2U);
  const auto tile = std::ranges::find(report.operators, "tile", &ImageFunction::name);
  ASSERT_NE(tile, report.operators.end());
  EXPECT_EQ(tile->symbol, named.exports[0].symbol);
  EXPECT_EQ(tile->shared_bytes, 4896U);
  EXPECT_EQ(examine_image(image.bytes, 1U << 20U).kernels[0].workers, 0U);
  const Object object = compiler().compile(nothing_unit());
  DWELL_EXPECT_ERROR(examine_image(object.bytes), errc::invalid_argument, testing::HasSubstr("no kernel, or is not linked"));
}

TEST_P(CudaCubinTest, SurvivesDamagedImages) {
  Bytes image = image_of({hungry_unit("hungry_1"), caller_unit()}).bytes;
  const auto use = [&] {
    const auto cubin = Cubin::open(image);
    if (!cubin) return;
    static_cast<void>(cubin->architecture());
    for (const std::string_view kernel : cubin->kernels()) cubin->kernel(kernel);
    for (const std::string_view entry : cubin->entries()) cubin->entry(entry);
    read_statics(image);
    read_signature(image, "hungry_1");
  };
  // Changes one byte in `step`. Later architectures differ in the meaning of the bytes, not in how they are read: fewer bytes suffice
  // there.
  const std::size_t step = GetParam() == std::string_view(kArchitectures[0]) && !kSanitized ? 253 : 1021;
  for (const int value : {0x00, 0x7f, 0xff}) {
    for (std::size_t at = 0; at < image.size(); at += at < 64 ? 1 : step) {
      const std::byte before = std::exchange(image[at], static_cast<std::byte>(value));
      use();
      image[at] = before;
    }
  }
  while (image.size() > 100) {
    image.resize(image.size() - image.size() / 50 - 1);
    use();
  }
}

}  // namespace
}  // namespace dwell::jit
