#include "jit/cuda/cuda_hidden_variables.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

#include "base/byte_stream.hpp"
#include "jit/object/elf.hpp"
#include "tests/unit/cuda_test.hpp"

namespace dwell::jit {
namespace {

// The symbol types of a cubin, by name.
std::map<std::string, int> types_in(std::span<const std::byte> cubin) {
  std::map<std::string, int> types;
  const auto elf = Elf::open(cubin);
  if (!elf) return types;
  const auto table = elf->section(".symtab")->bytes;
  for (const Elf::Symbol& symbol : elf->symbols()) {
    Elf64_Sym raw;
    std::memcpy(&raw, table.data() + symbol.index * sizeof(raw), sizeof(raw));
    types[std::string(symbol.name)] = ELF64_ST_TYPE(raw.st_info);
  }
  return types;
}

class HiddenVariables : public CudaTest {};

TEST_F(HiddenVariables, OnlyUnreferencedVariablesAreHidden) {
  const NvrtcResult compiled = Nvrtc::get().compile(
      "extern \"C\" __device__ int unused = 3;\n"
      "extern \"C\" __device__ int used[2] = {4, 5};\n"
      "extern \"C\" __global__ void kernel(int* to, int at) { *to = used[at]; }\n",
      "x", {}, {"--gpu-architecture=sm_90", "-rdc=true"});
  ASSERT_TRUE(compiled.ok) << compiled.log;
  const NvJitLink::Input input{NvJitLink::Input::Kind::cubin, compiled.bytes, "x"};
  Bytes image = NvJitLink::get().link("sm_90", {&input, 1}).bytes;
  const auto before = types_in(image);
  ASSERT_EQ(before.at("unused"), STT_OBJECT);
  const Bytes whole = image;
  hide_variables(image);
  const auto after = types_in(image);
  EXPECT_EQ(after.at("unused"), STT_NOTYPE);
  EXPECT_EQ(after.at("used"), STT_OBJECT);
  EXPECT_EQ(after.at("kernel"), STT_FUNC);
  EXPECT_EQ(Elf::open(image)->symbol("unused")->size, 4U) << "its bytes are still there";
  const Bytes once = image;
  hide_variables(image);
  EXPECT_EQ(image, once);

  // Truncated images are not accessed out of bounds.
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    hide_variables(part);
  }
}

}  // namespace
}  // namespace dwell::jit
