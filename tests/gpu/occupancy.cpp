// The number of workers computed from an image's bytes equals the driver's for the loaded image.
#include "jit/object/occupancy.hpp"

#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "jit/cuda/cuda_compiler.hpp"
#include "tests/gpu/gpu_test.hpp"

namespace dwell::test {
namespace {

class OccupancyTest : public GpuTest {};

// An operator with `values` live values, `tile_bytes` of static shared memory and barrier number `barrier`.
std::string source(unsigned values, unsigned tile_bytes, unsigned barrier) {
  std::string text = "DWELL_OPERATOR(taker)(dwell::Group g, dwell::Span<dwell::u32> y) {\n";
  if (tile_bytes != 0) {
    text += "  __shared__ dwell::u8 tile[" + std::to_string(tile_bytes) + "];\n";
    text +=
        "  tile[y[0] % " + std::to_string(tile_bytes) + "] = 1;\n  g.sync();\n  y[0] = tile[y[1] % " + std::to_string(tile_bytes) + "];\n";
  }
  if (barrier != 0) text += "  asm volatile(\"barrier.sync " + std::to_string(barrier) + ", 128;\" ::: \"memory\");\n";
  const std::string count = std::to_string(values);
  return text + "  dwell::u32 v[" + count +
         "];\n"
         "#pragma unroll\n"
         "  for (dwell::u32 k = 0; k < " +
         count +
         "; ++k) v[k] = y[k];\n"
         "#pragma unroll 1\n"
         "  for (dwell::u32 round = 0; round < y[1]; ++round) {\n"
         "#pragma unroll\n"
         "    for (dwell::u32 k = 0; k < " +
         count + "; ++k) v[k] = v[k] * 3 + (v[(k + 7) % " + count +
         "] >> 3);\n"
         "  }\n"
         "#pragma unroll\n"
         "  for (dwell::u32 k = 0; k < " +
         count + "; ++k) y[k] = v[k];\n}\n";
}

TEST_F(OccupancyTest, AgreesWithTheDriver) {
  const auto backend = backend::open_cuda(cuda_ordinal());
  const backend::DeviceInfo device = backend->info();
  const std::uint32_t architecture = jit::architecture_of(device.target);
  jit::CudaCompiler compiler({.arch = device.target, .cache = {}});
  struct Taker {
    unsigned values;
    unsigned tile_bytes;
    unsigned barrier;
  };
  std::vector<std::uint32_t> seen;
  for (const Taker& taker : {Taker{1, 0, 0}, Taker{70, 0, 0}, Taker{100, 0, 0}, Taker{130, 0, 0}, Taker{200, 0, 0}, Taker{1, 5000, 0},
                             Taker{1, 40960, 0}, Taker{100, 40960, 0}, Taker{1, 0, 7}, Taker{1, 0, 15}}) {
    const std::string text = source(taker.values, taker.tile_bytes, taker.barrier);
    const jit::Object object = compiler.compile({"taker", text, "taker.op", 1, {{"taker", "taker_1"}}});
    const jit::Opcode table[] = {&object};
    const jit::Image image = compiler.link(table);
    const auto program = backend->load(image.bytes);
    for (const std::uint32_t scratch : {0U, 8192U, 16384U, 48U * 1024U, 100U * 1024U, 190U * 1024U, 1U << 20U}) {
      const auto fit = jit::occupancy(architecture, image.resources, scratch);
      ASSERT_TRUE(fit) << device.target;
      EXPECT_EQ(fit->workers * device.multiprocessors, program->max_workers(scratch))
          << image.resources.registers << " registers, " << image.resources.shared_bytes << " bytes, " << image.resources.barriers
          << " barriers, " << scratch << " bytes of scratch memory; " << jit::name_of(fit->bottleneck);
      seen.push_back(fit->workers);
    }
  }
  std::ranges::sort(seen);
  EXPECT_GT(std::unique(seen.begin(), seen.end()) - seen.begin(), 4) << "the images are meant to differ";
}

}  // namespace
}  // namespace dwell::test
