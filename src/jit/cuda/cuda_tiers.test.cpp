// Images that inline their operators, compiled and linked as for a device. Needs NVRTC and nvJitLink but no GPU.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <dwell/device/inspect.hpp>
#include <dwell/error.hpp>

#include "jit/base/temporary_directory.hpp"
#include "jit/cuda/cuda_compiler.hpp"
#include "jit/cuda/cuda_table.hpp"
#include "jit/cuda/nvrtc.hpp"
#include "jit/object/cubin.hpp"
#include "jit/object/elf.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

using testing::HasSubstr;

Unit inlined(Unit unit) {
  unit.form = Form::lto;
  return unit;
}

// `count` small, different operators: instances of one template.
Unit many_unit(int count) {
  Unit unit = unit_of("scale",
                      "template <int K>\n"
                      "DWELL_OPERATOR(scale)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {\n"
                      "  for (auto i : g.range(y.size())) y[i] = a * x[i] + K;\n"
                      "}\n",
                      "scale");
  unit.exports.clear();
  for (int i = 0; i < count; ++i) unit.exports.push_back({"scale<" + std::to_string(i) + ">", "scale_" + std::to_string(i)});
  return unit;
}

std::vector<Opcode> all_of(const Object& object, std::size_t count) {
  std::vector<Opcode> table;
  for (std::uint32_t i = 0; i < count; ++i) table.emplace_back(&object, i);
  return table;
}

// The functions of an image beside its kernel, without those of the loop.
std::vector<std::string> functions_of(const Image& image) {
  std::vector<std::string> names;
  const auto elf = Elf::open(image.bytes);
  if (!elf) return {"no image"};
  for (const Elf::Section& section : elf->sections()) {
    constexpr std::string_view prefix = ".text.";
    if (!section.name.starts_with(prefix)) continue;
    const std::string name(section.name.substr(prefix.size()));
    if (name != "dwell_resident" && name.find("5dwell6device") == std::string::npos) names.push_back(name);
  }
  return names;
}

// The workers of 160 threads that fit the 65536 registers of a multiprocessor, allocated by 256 a warp.
std::uint32_t workers_for(std::uint32_t registers) {
  const std::uint32_t warps = 4 * (16384 / ((registers + 7) / 8 * 256));  // each quarter of a multiprocessor has its own registers
  return warps / 5;
}

template <class Base>
class Linking : public Base {
 protected:
  static Image link(const std::vector<Opcode>& table, Tier tier) { return Base::compiler().link(table, tier); }
};
using CudaTiersTest = Linking<CudaTest>;
using CudaTiersFiguresTest = Linking<CudaFiguresTest>;

TEST_F(CudaTiersTest, ObjectsCarryTheirForm) {
  const Object native = compiler().compile(axpy_unit("axpy_1"));
  EXPECT_EQ(native.form, Form::native);
  const Object ir = compiler().compile(inlined(axpy_unit("axpy_1")));
  EXPECT_EQ(ir.form, Form::lto);
  EXPECT_FALSE(Elf::open(ir.bytes)) << "it holds machine code";
  EXPECT_EQ(ir.entries.at(0).symbol, "axpy_1");
  EXPECT_EQ(ir.entries.at(0).signature, expected_axpy_signature());
}

TEST_F(CudaTiersTest, InspectedVariablesExistInBothTiers) {
  Unit unit = axpy_unit("axpy_1");
  unit.text =
      "float residual = 3; dwell::Seqlock<dwell::u64> steps; double hidden = 1;\n"
      "DWELL_INSPECT(residual) DWELL_INSPECT(steps)\n"
      "DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {\n"
      "  if (g.rank() == 0) { residual = a * x[0]; steps.store(y.size()); hidden = a; }\n"
      "}\n";
  for (const Tier tier : {Tier::relocatable, Tier::lto}) {
    const Object shows = compiler().compile(tier == Tier::lto ? inlined(unit) : unit);
    const Object plain = compiler().compile(tier == Tier::lto ? inlined(axpy_unit("plain_1")) : axpy_unit("plain_1"));
    const Image image = link({&shows, &plain}, tier);
    const auto elf = Elf::open(image.bytes);
    ASSERT_TRUE(elf);
    const Elf::Symbol* const found = elf->symbol("axpy_1_inspects");
    ASSERT_NE(found, nullptr) << "tier " << static_cast<int>(tier);
    ASSERT_EQ(found->size, sizeof(InspectsRecord<2>));
    const std::span<const std::byte> bytes = elf->symbol_bytes("axpy_1_inspects");
    InspectsRecord<2> record{};
    ASSERT_EQ(bytes.size(), sizeof(record));
    std::memcpy(&record, bytes.data(), sizeof(record));
    EXPECT_EQ(record.magic, kInspectsMagic);
    EXPECT_EQ(record.count, 2U);
    EXPECT_STREQ(record.each[0].name, "residual");
    EXPECT_STREQ(record.each[1].name, "steps");
    EXPECT_EQ(record.each[1].type.bytes, 8);
    Elf64_Sym raw;
    std::memcpy(&raw, elf->section(".symtab")->bytes.data() + found->index * sizeof(raw), sizeof(raw));
    EXPECT_EQ(ELF64_ST_TYPE(raw.st_info), STT_OBJECT) << "the driver finds it";
    if (tier == Tier::lto) continue;  // its relocations name every variable
    const Elf::Symbol* const none = elf->symbol("plain_1_inspects");
    ASSERT_NE(none, nullptr);
    std::memcpy(&raw, elf->section(".symtab")->bytes.data() + none->index * sizeof(raw), sizeof(raw));
    EXPECT_EQ(ELF64_ST_TYPE(raw.st_info), STT_NOTYPE) << "the driver would set it up for nobody";
  }
}

TEST_F(CudaTiersTest, ErrorsMatchTheNativeForm) {
  Unit unit = inlined(axpy_unit("axpy_1"));
  unit.text.replace(unit.text.find("y[i] +="), 7, "y[i] = nonsense +");
  DWELL_EXPECT_ERROR(compiler().compile(unit), errc::compile_failed, HasSubstr("axpy.cu(7)"));
}

// nvJitLink applies these to a whole image, which would change the operator's results.
TEST_F(CudaTiersTest, OptionsLostByTheLinkerKeepSourcesNative) {
  const CompileOptions all[] = {{.fast_math = true},   {.flush_denormals = true}, {.contract = false}, {.precise_division = false},
                                {.max_registers = 32}, {.line_info = true},       {.debug = true},     {.flags = {"--restrict"}}};
  for (const CompileOptions& options : all) {
    Unit unit = axpy_unit("axpy_1");
    unit.options = options;
    EXPECT_EQ(compiler().compile(inlined(unit)).form, Form::native);
  }
  Unit same = axpy_unit("axpy_1");
  same.options = {.flush_denormals = false, .contract = true, .precise_division = true};
  EXPECT_EQ(compiler().compile(inlined(same)).form, Form::lto);
}

TEST_F(CudaTiersTest, ExplicitLtoIsHonouredOrRefused) {
  Unit unit = axpy_unit("axpy_1");
  unit.options.lto = true;
  EXPECT_EQ(compiler().compile(unit).form, Form::lto);
  unit.options.max_registers = 32;
  DWELL_EXPECT_ERROR(compiler().compile(unit), errc::invalid_argument, HasSubstr("lto: not together with CompileOptions::max_registers"));
  EXPECT_THROW(compiler().fingerprint(unit), Error);
}

TEST_F(CudaTiersFiguresTest, InlinedOperatorsLeaveRoomForFiveWorkers) {
  for (const int count : {1, 128}) {
    SCOPED_TRACE(count);
    const Object native = compiler().compile(many_unit(count));
    const Object ir = compiler().compile(inlined(many_unit(count)));
    const Image before = link(all_of(native, native.entries.size()), Tier::relocatable);
    const Image image = link(all_of(ir, ir.entries.size()), Tier::lto);
    EXPECT_EQ(functions_of(before).size(), static_cast<std::size_t>(count));
    EXPECT_THAT(functions_of(image), testing::IsEmpty());
    EXPECT_EQ(Elf::open(image.bytes)->symbol("dwell_operators"), nullptr) << "something is still called through the table";
    EXPECT_GE(workers_for(image.resources.registers), 5U) << image.resources.registers << " registers";
    EXPECT_LE(image.resources.stack_bytes, before.resources.stack_bytes);
    EXPECT_EQ(image.resources.shared_bytes, before.resources.shared_bytes);
  }
}

// Inlined operators that need more registers than five workers a multiprocessor leave get them instead of spilling.
TEST_F(CudaTiersFiguresTest, InliningTakesNoMoreRegistersThanTheTable) {
  const Object small = compiler().compile(inlined(axpy_unit("axpy_1")));
  const Object hungry = compiler().compile(inlined(hungry_unit("hungry_1")));
  const Object native = compiler().compile(hungry_unit("hungry_1"));
  const Resources inlined_all = link({&small, &hungry}, Tier::lto).resources;
  const Resources called = link({&small, &native}, Tier::relocatable).resources;
  EXPECT_GT(inlined_all.registers, 64U) << "it is meant to be hungry";
  EXPECT_LE(inlined_all.registers, called.registers);
  EXPECT_LE(inlined_all.stack_bytes, called.stack_bytes + 256) << "with the loop's limit it is 680 more";
  EXPECT_EQ(inlined_all.shared_bytes, called.shared_bytes);
}

TEST_F(CudaTiersTest, FormsMixInBothTiers) {
  const Object ir = compiler().compile(inlined(axpy_unit("axpy_1")));
  const Object native = compiler().compile(hungry_unit("hungry_1"));
  const Image inlining = link({&ir, nullptr, &native, &ir}, Tier::lto);
  EXPECT_THAT(functions_of(inlining), testing::ElementsAre("hungry_1"));
  EXPECT_EQ(Elf::open(inlining.bytes)->symbol("dwell_operators")->size, 5 * 8U);
  const Image calling = link({&ir, nullptr, &native, &ir}, Tier::relocatable);
  EXPECT_THAT(functions_of(calling), testing::UnorderedElementsAre("axpy_1", "hungry_1"));
  for (const Image& image : {inlining, calling}) {
    EXPECT_GE(image.resources.registers, Cubin::open(image.bytes)->entry("hungry_1")->registers);
    EXPECT_EQ(read_signature(image.bytes, "hungry_1"), native.entries[0].signature);
  }
}

TEST_F(CudaTiersTest, ObjectsListUsedOperators) {
  EXPECT_EQ(compiler().compile(using_unit("user_1")).uses, expected_uses());
  EXPECT_EQ(compiler().compile(inlined(using_unit("user_1"))).uses, expected_uses());
  EXPECT_TRUE(compiler().compile(inlined(axpy_unit("axpy_1"))).uses.empty());
  Unit debug = using_unit("user_1");
  debug.options.debug = true;
  const Object unoptimised = compiler().compile(debug);
  EXPECT_EQ(unoptimised.uses, expected_uses());
  EXPECT_FALSE(link({&unoptimised}, Tier::relocatable).bytes.empty());
  Unit split = using_unit("user_1");
  const std::size_t first_line = split.text.find('\n') + 1;
  split.options = CompileOptions().with_header("first.h", split.text.substr(0, first_line));
  split.options.standard = 14;
  split.text.replace(0, first_line, "#include \"first.h\"\n");
  split.text.replace(split.text.find("uses::first"), 11, "::uses::first");
  EXPECT_EQ(compiler().compile(split).uses, expected_uses());
}

TEST_F(CudaTiersTest, ImagesContainUsedOpcodes) {
  const Object native = compiler().compile(using_unit("user_1"));
  const Object ir = compiler().compile(inlined(using_unit("user_1")));
  for (const auto& [object, tier] :
       {std::pair(&native, Tier::relocatable), {&native, Tier::lto}, {&ir, Tier::relocatable}, {&ir, Tier::lto}}) {
    std::vector<Opcode> table = {object, nullptr, object};
    table[0].uses = {7, 0};
    table[2].uses = {9, 2};
    const Image image = link(table, tier);
    const auto elf = Elf::open(image.bytes);
    const auto bytes = elf->symbol_bytes("dwell_uses");
    std::vector<std::uint32_t> words(bytes.size() / sizeof(std::uint32_t));
    std::memcpy(words.data(), bytes.data(), bytes.size());
    EXPECT_EQ(words, (std::vector<std::uint32_t>{3, 5, 5, 7, 0, 9, 2})) << static_cast<int>(object->form) << static_cast<int>(tier);
  }
}

TEST_F(CudaTiersTest, AnOperatorWithSeveralBindingsIsInlinedOnce) {
  const Object ir{{{"a_1", {}}, {"a_1_1", {}}}, {}, {}, Form::lto};
  const Opcode table[] = {&ir, {&ir, 1}, &ir};
  const std::string text = dispatch_source(table);
  EXPECT_THAT(text, HasSubstr("case 0: case 2: return a_1("));
  EXPECT_THAT(text, HasSubstr("    case 1: return a_1_1("));
}

TEST_F(CudaTiersTest, TwoVersionsWithTheSameHelpersLinkTogether) {
  const Object one = compiler().compile(inlined(axpy_unit("axpy_one", "2.0f")));
  const Object two = compiler().compile(inlined(axpy_unit("axpy_two", "5.0f")));
  const Image image = link({&one, &two}, Tier::lto);
  EXPECT_EQ(read_signature(image.bytes, "axpy_one"), expected_axpy_signature());
  EXPECT_EQ(read_signature(image.bytes, "axpy_two"), expected_axpy_signature());
}

TEST_F(CudaTiersTest, AnImageOfAFreeOpcodeLinks) { EXPECT_FALSE(link({nullptr}, Tier::lto).bytes.empty()); }

TEST_F(CudaTiersFiguresTest, LinkingIsDeterministic) {
  const auto make = [] {
    CudaCompiler fresh({.arch = "sm_90", .cache = {}});
    const Object ir = fresh.compile(inlined(many_unit(8)));
    return fresh.link(all_of(ir, 8), Tier::lto).bytes;
  };
  EXPECT_EQ(make(), make());
}

TEST_F(CudaTiersTest, LinkErrorsNameTheOperator) {
  const NvrtcResult result = Nvrtc::get().compile(
      "extern \"C\" __device__ void elsewhere();\n"
      "extern \"C\" __device__ void axpy_1(const void*, const unsigned*) { elsewhere(); }\n",
      "x", {}, {"--gpu-architecture=sm_90", "-rdc=true", "--dlink-time-opt"}, Form::lto);
  ASSERT_TRUE(result.ok) << result.log;
  const Object caller{{{"axpy_1", expected_axpy_signature()}}, result.bytes, {}, Form::lto};
  try {
    link({&caller}, Tier::lto);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::link_failed);
    EXPECT_THAT(error.message(), HasSubstr("elsewhere"));
  }
  const Object one = compiler().compile(inlined(axpy_unit("axpy_1", "1.0f")));
  const Object two = compiler().compile(inlined(axpy_unit("axpy_1", "2.0f")));
  EXPECT_THROW(link({&one, &two}, Tier::lto), Error);
  Object damaged = one;
  damaged.bytes.resize(damaged.bytes.size() / 2);
  EXPECT_THROW(link({&damaged}, Tier::lto), Error);
}

// Also links an image without operators.
TEST_F(CudaTiersTest, BothLoopsAreCached) {
  const TemporaryDirectory folder;
  const FileCache cache(folder.path() / "cache");
  CudaCompiler first({.arch = "sm_90", .cache = cache});
  EXPECT_FALSE(first.link({}, Tier::lto).bytes.empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache.directory()), std::filesystem::directory_iterator()), 1);
  const Bytes image = first.link({}, Tier::relocatable).bytes;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache.directory()), std::filesystem::directory_iterator()), 2);
  EXPECT_EQ(CudaCompiler({.arch = "sm_90", .cache = cache}).link({}, Tier::relocatable).bytes, image);
}

// Uses an operator that makes tasks, which keeps the loop's code for them; other images omit it.
TEST_F(CudaTiersFiguresTest, EveryArchitectureHasRoomForFiveInliningWorkers) {
  for (const char* const arch : {"sm_80", "sm_90a", "sm_120"}) {
    if (!compiles_for(arch)) continue;
    SCOPED_TRACE(arch);
    CudaCompiler& other = compiler_for(arch);
    const Object ir = other.compile(inlined(tree_unit()));
    const Object native = other.compile(tree_unit());
    const Opcode table[] = {&ir};
    const Opcode called[] = {&native};
    EXPECT_GE(workers_for(other.link(table, Tier::lto).resources.registers), 5U);
    EXPECT_GE(workers_for(other.link(called, Tier::relocatable).resources.registers), 4U) << "as many as a multiprocessor has by default";
  }
}

}  // namespace
}  // namespace dwell::jit
