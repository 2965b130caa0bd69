#include "jit/object/cubin.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "jit/object/kernel_signature.hpp"
#include "jit/object/nv_info.hpp"
#include "tests/unit/elf_file.hpp"

namespace dwell::jit {
namespace {

using nv_info::Number;
using test::bytes_of;
using test::ElfFile;

constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();

// A section .nv.info: a head with the length, then words.
Bytes attribute(Number number, const std::vector<std::uint32_t>& words) {
  const auto size = static_cast<std::uint32_t>(words.size() * 4);
  Bytes bytes = bytes_of(std::vector<std::uint32_t>{4U | static_cast<std::uint32_t>(number) << 8U | size << 16U});
  const Bytes rest = bytes_of(words);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A cubin with the kernel "k", which calls the function "f".
struct TwoFunctions {
  ElfFile file{nv_info::kMachine};
  std::uint32_t k = 0;
  std::uint32_t f = 0;

  TwoFunctions() {
    const auto code_k = file.add(".text.k", SHT_PROGBITS, Bytes(16));
    const auto code_f = file.add(".text.f", SHT_PROGBITS, Bytes(16));
    k = file.symbol("k", static_cast<std::uint16_t>(code_k), nv_info::kEntryPoint);
    f = file.symbol("f", static_cast<std::uint16_t>(code_f));
    file.add(".nv.callgraph", SHT_PROGBITS, bytes_of(std::vector<std::uint32_t>{0, kMost, k, f, 0, kMost - 1}));
  }
  void frames(std::uint32_t of_k, std::uint32_t of_f) {
    file.add(".nv.info", SHT_PROGBITS,
             attribute(Number::register_count, {k, 8}) + attribute(Number::frame_size, {k, of_k}) +
                 attribute(Number::register_count, {f, 16}) + attribute(Number::frame_size, {f, of_f}));
  }
};

TEST(Cubin, SumsOverTheCallGraph) {
  TwoFunctions two;
  two.frames(100, 50);
  two.file.add(".nv.shared.k", SHT_NOBITS, {}, 3000);
  two.file.add(".nv.info.k", SHT_PROGBITS, attribute(Number::max_threads, {32, 2, 1}));
  const Bytes bytes = two.file.write();
  const auto cubin = Cubin::open(bytes);
  ASSERT_TRUE(cubin);
  EXPECT_EQ(cubin->architecture(), 90U);
  EXPECT_EQ(cubin->kernels(), std::vector<std::string_view>{"k"});
  const auto kernel = cubin->kernel("k");
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->registers, 16U);
  EXPECT_EQ(kernel->stack_bytes, 150U);
  EXPECT_EQ(kernel->shared_bytes, 3000U - 1024U);
  EXPECT_EQ(kernel->threads, 64U);
}

// A wrapped figure would pass every limit.
TEST(Cubin, FiguresSaturate) {
  TwoFunctions two;
  two.frames(kMost, 2);
  two.file.add(".nv.shared.k", SHT_NOBITS, {}, (std::uint64_t{1} << 32U) + 1024);
  two.file.add(".nv.constant3", SHT_NOBITS, {}, std::uint64_t{1} << 40U);
  two.file.add(".nv.info.k", SHT_PROGBITS, attribute(Number::max_threads, {1U << 16U, 1U << 16U, 1}));
  const Bytes bytes = two.file.write();
  const auto kernel = Cubin::open(bytes)->kernel("k");
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->stack_bytes, kMost);
  EXPECT_EQ(kernel->shared_bytes, kMost - 1024);
  EXPECT_EQ(kernel->constant_bytes, kMost);
  EXPECT_EQ(kernel->threads, kMost);
}

TEST(Cubin, ReadsParametersOfEverySize) {
  for (const std::uint32_t size : {4U, 16383U}) {
    TwoFunctions two;
    two.frames(0, 0);
    two.file.add(".nv.info.k", SHT_PROGBITS, attribute(Number::parameter, {0, 0, size << 18U}));
    EXPECT_EQ(read_kernels(two.file.write())[0].signature.parameters()[0].bytes, size);
  }
  TwoFunctions two;
  two.file.add(".nv.info.k", SHT_PROGBITS, attribute(Number::parameter, {0, 0xFFFF, 4U << 18U}));
  EXPECT_THROW(read_kernels(two.file.write()), Error) << "the last of 65536, and nothing of the others";
}

TEST(Elf, OffsetsAndSizesBeyondTheFileAreAbsent) {
  constexpr std::uint64_t huge[] = {1U << 20U, std::uint64_t{1} << 63U, std::numeric_limits<std::uint64_t>::max() - 8,
                                    std::numeric_limits<std::uint64_t>::max()};
  for (const std::uint64_t value : huge) {
    TwoFunctions two;
    two.frames(100, 50);
    const auto data = two.file.add(".data", SHT_PROGBITS, Bytes(16));
    two.file.symbol("size", static_cast<std::uint16_t>(data), 0, 0, value);
    two.file.symbol("value", static_cast<std::uint16_t>(data), 0, value, 8);
    two.file.symbol("both", static_cast<std::uint16_t>(data), 0, 8, value - 4);
    const Bytes whole = two.file.write();
    for (const char* const name : {"size", "value", "both"}) EXPECT_TRUE(Elf::open(whole)->symbol_bytes(name).empty()) << name;

    const auto open = [&](auto change) {
      const Bytes bytes = two.file.write(change);
      const auto cubin = Cubin::open(bytes);
      if (cubin) static_cast<void>(cubin->kernel("k"));
      return cubin.has_value();
    };
    for (std::size_t i = 1; i < two.file.sections.size(); ++i) {
      open([&] { two.file.sections[i].sh_offset = value; });
      open([&] { two.file.sections[i].sh_size = value; });
      open([&] { two.file.sections[i].sh_link = static_cast<std::uint32_t>(value); });
      open([&] { two.file.sections[i].sh_name = static_cast<std::uint32_t>(value); });
    }
    EXPECT_FALSE(open([&] { two.file.head.e_shoff = value; }));
    EXPECT_FALSE(open([&] {
      two.file.head.e_shnum = 0;
      two.file.sections[0].sh_size = value;
    }));
  }
}

// More sections than 16 bits can count: a large image has three an operator.
TEST(Elf, CountsAndIndexesMayStandInTheFirstSection) {
  TwoFunctions two;
  two.frames(100, 50);
  const auto data = two.file.add(".data", SHT_PROGBITS, bytes_of(std::string("12345678")));
  const std::uint32_t wide = two.file.symbol("wide", SHN_XINDEX, 0, 2, 4);
  const std::uint32_t special = two.file.symbol("special", SHN_ABS, 0, 2, 4);
  std::vector<std::uint32_t> indexes(special + 1);
  indexes[wide] = static_cast<std::uint32_t>(data);
  const auto table = two.file.add(".symtab_shndx", SHT_SYMTAB_SHNDX, bytes_of(indexes));
  two.file.sections[table].sh_link = 3;
  const Bytes bytes = two.file.write([&] {
    two.file.sections[0].sh_size = two.file.sections.size();
    two.file.sections[0].sh_link = 1;
    two.file.head.e_shnum = 0;
    two.file.head.e_shstrndx = SHN_XINDEX;
  });
  const auto elf = Elf::open(bytes);
  ASSERT_TRUE(elf);
  EXPECT_EQ(elf->symbol_bytes("wide").size(), 4U);
  EXPECT_TRUE(elf->symbol_bytes("special").empty());
  EXPECT_TRUE(Cubin::open(bytes)->kernel("k"));
}

}  // namespace
}  // namespace dwell::jit
