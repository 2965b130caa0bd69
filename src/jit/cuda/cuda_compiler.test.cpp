// From source to image. Needs NVRTC and nvJitLink but no GPU.
#include "jit/cuda/cuda_compiler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <dwell/device/group.hpp>
#include <dwell/error.hpp>

#include "jit/base/temporary_directory.hpp"
#include "jit/cache/caching_compiler.hpp"
#include "jit/cuda/nvjitlink.hpp"
#include "jit/cuda/nvrtc.hpp"
#include "jit/object/elf.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/expect_error.hpp"
#include "tests/unit/operators.hpp"

namespace dwell::jit {
namespace {

using testing::HasSubstr;
using testing::Not;

// A kernel that calls operators through the table, as the resident loop does.
std::string stand_in_loop() {
  return "#include <dwell/device/operator.hpp>\n"
         "extern \"C\" { extern __constant__ dwell::device::Entry dwell_operators[]; }\n"
         "extern \"C\" __global__ void __launch_bounds__(160) dwell_resident(const dwell::u32* tasks, int n) {\n"
         "  __shared__ dwell::device::Context context;\n"
         "  __shared__ dwell::u32 arguments[64];\n"
         "  if (threadIdx.x < 64) arguments[threadIdx.x] = tasks[threadIdx.x];\n"
         "  __syncthreads();\n"
         "  const dwell::u32 lent = dwell::device::address_in_shared(&context);\n"
         "  for (int i = 0; i < n; ++i) dwell_operators[arguments[i]](lent, arguments[i], dwell::device::address_in_shared(arguments));\n"
         "}\n";
}

// Bounds of that loop's shared memory: its words and a worker's context, whose size on the device differs from that on the host.
constexpr std::size_t kLeastLoopBytes = 64 * 4 + sizeof(device::Context::task) + sizeof(device::Context::exchange);
constexpr std::size_t kMostLoopBytes = 64 * 4 + 2 * sizeof(device::Context);

class CudaCompilerTest : public CudaTest {
 protected:
  // A compiler with a small loop of its own.
  static CudaCompiler& compiler() {
    static CudaCompiler shared({.arch = "sm_90", .loop = stand_in_loop(), .cache = {}});
    return shared;
  }
  static Image link(const std::vector<Opcode>& entries) { return compiler().link(entries); }
};

TEST_F(CudaCompilerTest, TwoVersionsWithTheSameHelpersLinkTogether) {
  const Object one = compiler().compile(axpy_unit("axpy_one", "2.0f"));
  const Object two = compiler().compile(axpy_unit("axpy_two", "5.0f"));
  const Image image = link({&one, nullptr, &two, &one});
  const auto elf = Elf::open(image.bytes);
  ASSERT_TRUE(elf);
  EXPECT_NE(elf->symbol("axpy_one"), nullptr);
  EXPECT_NE(elf->symbol("axpy_two"), nullptr);
  ASSERT_NE(elf->symbol("dwell_operators"), nullptr);
  EXPECT_EQ(elf->symbol("dwell_operators")->size, 5 * 8U);
  EXPECT_EQ(read_signature(image.bytes, "axpy_one"), expected_axpy_signature());
}

TEST_F(CudaCompilerTest, ReadsTheSignature) {
  const Object object = compiler().compile(axpy_unit("axpy_1"));
  EXPECT_EQ(object.entries[0].signature, expected_axpy_signature());
  EXPECT_EQ(object.log, "");
}

TEST_F(CudaCompilerTest, OperatorsWithMoreArgumentsThanTheRingHoldsLink) {
  const auto unit = [](const std::string& name, int bytes) {
    return unit_of(
        name,
        "struct Blob { dwell::u8 byte[" + std::to_string(bytes) + "]; };\nDWELL_OPERATOR(" + name +
            ")(dwell::Group g, dwell::Span<dwell::u32> out, Blob blob) {\n  if (g.rank() == 0) out[0] = blob.byte[out.size()];\n}\n",
        name + "_1");
  };
  const Object short_one = compiler().compile(unit("short_one", 360));
  const Object long_one = compiler().compile(unit("long_one", 361));
  const Object longest = compiler().compile(unit("longest", 20000));
  EXPECT_EQ(longest.entries.at(0).signature.parameters().at(1).bytes, 20000);
  EXPECT_FALSE(link({&short_one, &long_one, &longest}).bytes.empty());
}

TEST_F(CudaCompilerTest, AnImageWithoutOperatorsLinks) {
  EXPECT_FALSE(link({}).bytes.empty());
  EXPECT_FALSE(link({nullptr, nullptr}).bytes.empty());
}

TEST_F(CudaCompilerTest, ResourcesAreTheMaximumOverOperators) {
  const Object axpy = compiler().compile(axpy_unit("axpy_1"));
  const Object hungry = compiler().compile(hungry_unit("hungry_1"));
  const Resources slim = link({&axpy}).resources;
  const Resources wide = link({&axpy, &hungry}).resources;
  EXPECT_GT(slim.registers, 15U);
  EXPECT_LT(slim.registers, 100U);
  EXPECT_LT(slim.stack_bytes, 100U);
  EXPECT_GT(slim.shared_bytes, kLeastLoopBytes);
  EXPECT_LT(slim.shared_bytes, kMostLoopBytes);
  EXPECT_GT(wide.registers, 120U);
  EXPECT_GT(wide.stack_bytes, slim.stack_bytes + 100);
  EXPECT_EQ(wide.shared_bytes, slim.shared_bytes + 4096U);
}

TEST_F(CudaCompilerTest, ErrorsCarryTheUsersFileAndLine) {
  Unit unit = axpy_unit("axpy_1");
  unit.text.replace(unit.text.find("y[i] +="), 7, "y[i] = nonsense +");
  unit.file = "some where/axpy.cu";
  unit.line = 100;
  DWELL_EXPECT_ERROR(compiler().compile(unit), errc::compile_failed,
                     testing::AllOf(HasSubstr("some where/axpy.cu(106)"), HasSubstr("nonsense"), Not(HasSubstr("dwell_operator"))));
}

TEST_F(CudaCompilerTest, AParameterMistakeIsReportedOnce) {
  const Unit unit = unit_of("a", "DWELL_OPERATOR(a)(dwell::Group g, dwell::Spn<float> y) {}\n", "a_1");
  try {
    compiler().compile(unit);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::compile_failed);
    EXPECT_THAT(error.message(), HasSubstr("a.cu(1)"));
    EXPECT_LT(error.message().size(), 1000U) << error.message();
  }
}

TEST_F(CudaCompilerTest, WrongParameterIsReportedInOneLine) {
  const auto message = [](const std::string& parameters) {
    const Unit unit = unit_of("a", "struct Owner { ~Owner() {} };\nDWELL_OPERATOR(a)(" + parameters + ") {}\n", "a_1");
    return error_of([&] { compiler().compile(unit); }).message();
  };
  EXPECT_EQ(message("int n"), "operator a does not compile: its first parameter must be dwell::Group, it is int");
  EXPECT_EQ(message(""), "operator a does not compile: its first parameter must be dwell::Group, it has none");
  EXPECT_EQ(message("dwell::Group g, float& x"),
            "operator a does not compile: 'float& x' is a reference: take a value, or a dwell::Span to write to");
  EXPECT_THAT(message("dwell::Group g, Owner x"),
              testing::AllOf(testing::StartsWith("operator a does not compile: 'Owner x': operator arguments are copied as bytes"),
                             Not(HasSubstr("\n"))));
}

TEST_F(CudaCompilerTest, UndefinedFunctionsAreNamed) {
  Unit unit = axpy_unit("axpy_1");
  unit.name = unit.exports[0].expression = "axpi";
  DWELL_EXPECT_ERROR(compiler().compile(unit), errc::operator_not_found, testing::_);
}

TEST_F(CudaCompilerTest, EachTemplateInstanceIsExported) {
  Unit unit = unit_of("scaled",
                      "template <class T, int N> DWELL_OPERATOR(scaled)(dwell::Group g, T a, dwell::Span<T> x) {\n"
                      "  for (auto i : g.range(x.size())) x[i] *= N * a;\n"
                      "}\n",
                      "");
  unit.exports = {{"scaled<float, 2>", "scaled_0"}, {"scaled<double, 3>", "scaled_1"}};
  const Object object = compiler().compile(unit);
  ASSERT_EQ(object.entries.size(), 2U);
  EXPECT_EQ(object.entries[0].signature.text(), "(float, Span<float>)");
  EXPECT_EQ(object.entries[1].signature.text(), "(double, Span<double>)");
  EXPECT_NE(object.assembly.find("scaled_1"), std::string::npos);
  const Image image = link({{&object, 1}, {&object, 0}});
  const auto elf = Elf::open(image.bytes);
  ASSERT_TRUE(elf);
  EXPECT_NE(elf->symbol("scaled_0"), nullptr);
  EXPECT_NE(elf->symbol("scaled_1"), nullptr);

  unit.exports = {{"scaled", "scaled_2"}};
  try {
    compiler().compile(unit);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::compile_failed);
    EXPECT_NE(error.message().find("note: scaled is a template: name those to make"), std::string::npos) << error.message();
  }
}

// An object that claims to be an axpy, made of other source.
Object forged(const std::string& text) {
  const NvrtcResult result = Nvrtc::get().compile(text, "x", {}, {"--gpu-architecture=sm_90", "-rdc=true"});
  EXPECT_TRUE(result.ok) << result.log;
  return {{{"axpy_1", expected_axpy_signature()}}, result.bytes, {}};
}

TEST_F(CudaCompilerTest, LinkErrorsNameTheOperator) {
  const Object caller = forged(
      "extern \"C\" __device__ void elsewhere();\n"
      "extern \"C\" __device__ void axpy_1(const void*, const unsigned*) { elsewhere(); }\n");
  try {
    link({&caller});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::link_failed);
    EXPECT_THAT(error.message(), HasSubstr("'elsewhere' in 'axpy_1'"));
  }
  const Object one = compiler().compile(axpy_unit("axpy_1", "1.0f"));
  const Object two = compiler().compile(axpy_unit("axpy_1", "2.0f"));
  try {
    link({&one, &two});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::link_failed);
    EXPECT_THAT(error.message(), HasSubstr("axpy_1"));
  }
  Object damaged = one;
  damaged.bytes.resize(damaged.bytes.size() / 2);
  EXPECT_THROW(link({&damaged}), Error);
}

// A loop that calls its table by another prototype than that of the entries; it would link, but with too few registers.
TEST_F(CudaCompilerTest, ALoopWithTooFewRegistersDoesNotLink) {
  CudaCompiler other({.arch = "sm_90",
                      .loop = "extern \"C\" { extern __constant__ void (*dwell_operators[])(int); }\n"
                              "extern \"C\" __global__ void dwell_resident(int n) { dwell_operators[n](n); }\n",
                      .cache = {}});
  const Object hungry = other.compile(hungry_unit("hungry_1"));
  const Opcode entries[] = {&hungry};
  DWELL_EXPECT_ERROR(other.link(entries), errc::link_failed, HasSubstr("registers"));
}

TEST_F(CudaCompilerTest, EveryArchitectureLinks) {
  for (const char* const arch : {"sm_75", "sm_80", "sm_90a", "sm_100", "sm_120"}) {
    if (!compiles_for(arch)) continue;
    CudaCompiler other({.arch = arch, .loop = stand_in_loop(), .cache = {}});
    const Object object = other.compile(axpy_unit("axpy_1"));
    const Opcode entries[] = {&object};
    const Resources resources = other.link(entries).resources;
    EXPECT_GT(resources.registers, 0U) << arch;
    EXPECT_GT(resources.shared_bytes, kLeastLoopBytes) << arch;
    EXPECT_LT(resources.shared_bytes, kMostLoopBytes) << arch;
  }
}

TEST_F(CudaCompilerTest, AnUnknownArchitectureIsNamed) {
  EXPECT_THROW(CudaCompiler({.arch = "gfx90a", .cache = {}}), Error);
  EXPECT_THROW(CudaCompiler({.arch = "sm_90; x", .cache = {}}), Error);
  CudaCompiler old({.arch = "sm_20", .cache = {}});
  DWELL_EXPECT_ERROR(old.compile(axpy_unit("axpy_1")), errc::compiler_unavailable, HasSubstr("sm_20"));
}

TEST_F(CudaCompilerTest, CudaHeadersAreFound) {
  if (Nvrtc::get().include_folder().empty()) GTEST_SKIP() << "no CUDA headers beside " << Nvrtc::get().file();
  const Object object = compiler().compile(unit_of(
      "a", "#include <cuda_fp16.h>\nDWELL_OPERATOR(a)(dwell::Group g, dwell::Span<__half> y) { y[g.rank()] = __hadd(y[0], y[1]); }\n",
      "a_1"));
  EXPECT_EQ(object.entries[0].signature.parameters().at(0).bytes, 2);
}

TEST_F(CudaCompilerTest, TheLoopIsCached) {
  const TemporaryDirectory folder;
  const FileCache cache(folder.path() / "cache");
  const std::string log = CudaCompiler({.arch = "sm_90", .loop = stand_in_loop(), .cache = cache}).loop_report().log;
  EXPECT_THAT(log, HasSubstr("dwell_resident"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache.directory()), std::filesystem::directory_iterator()), 1);
  CudaCompiler again({.arch = "sm_90", .loop = stand_in_loop(), .cache = cache});
  EXPECT_EQ(again.loop_report().log, log);
  EXPECT_EQ(again.loop_report().spill_bytes, 0U);
  EXPECT_FALSE(again.link({}).bytes.empty());
}

TEST_F(CudaCompilerTest, CachedImagesAreIdentical) {
  const TemporaryDirectory folder;
  const auto make = [&] {
    return CachingCompiler(std::make_unique<CudaCompiler>(CudaCompiler::Options{.arch = "sm_90", .loop = stand_in_loop(), .cache = {}}),
                           FileCache(folder.path() / "cache"));
  };
  std::vector<Image> images;
  for (int i = 0; i < 2; ++i) {
    CachingCompiler caching = make();
    Unit unit = axpy_unit("axpy_1");
    unit.fingerprint = caching.fingerprint(unit);
    const Object object = caching.compile(unit);
    const Opcode entries[] = {&object};
    images.push_back(caching.link(entries));
  }
  EXPECT_EQ(images[0].bytes, images[1].bytes);
  EXPECT_EQ(images[0].resources.registers, images[1].resources.registers);
  ASSERT_EQ(images[1].entries.size(), 1U);
  EXPECT_EQ(images[1].entries[0].symbol, "axpy_1");
  EXPECT_EQ(images[1].entries[0].resources.registers, images[0].entries[0].resources.registers);
}

TEST_F(CudaCompilerTest, SpillsOfTheLoopAreReported) {
  std::string loop = "extern \"C\" __global__ void __launch_bounds__(1024) dwell_resident(float* y) {\n  float v[200];\n";
  loop += "#pragma unroll\n  for (int i = 0; i < 200; ++i) v[i] = y[i * 1024];\n  __syncthreads();\n";
  loop +=
      "#pragma unroll\n  for (int k = 0; k < 3; ++k) for (int i = 0; i < 200; ++i) v[i] = v[i] * v[(i + 7) % 200] + v[(i + 13) % 200];\n";
  loop += "#pragma unroll\n  for (int i = 0; i < 200; ++i) y[i * 1024] = v[i];\n}\n";
  CudaCompiler spilling({.arch = "sm_90", .loop = loop, .cache = {}});
  EXPECT_GT(spilling.loop_report().spill_bytes, 0U) << spilling.loop_report().log;
}

TEST(CudaLibrary, ErrorsNameCandidatesAndPackage) {
  try {
    const Nvrtc missing({"/nowhere/libnvrtc.so.13"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::compiler_unavailable);
    EXPECT_THAT(error.message(), testing::AllOf(HasSubstr("/nowhere/libnvrtc.so.13"), HasSubstr("12.4"), HasSubstr("nvidia-cuda-nvrtc")));
  }
  const TemporaryDirectory folder;
  const std::string broken = folder.path() / "libnvJitLink.so.13";
  std::ofstream(broken) << "no library";
  try {
    const NvJitLink missing({broken});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::AllOf(HasSubstr(broken + ": file too short"), HasSubstr("nvidia-nvjitlink")));
  }
}

TEST(CudaLibrary, OldVersionsAreRefused) {
  try {
    open_cuda_library("thing", "package", {"libm.so.6"}, {12, 4}, [](const DynamicLibrary&) { return CudaVersion{12, 1}; });
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("is version 12.1"));
  }
}

TEST(CudaLibrary, TheUserFolderComesFirst) {
  setenv("DWELL_CUDA_PATH", "/my/cuda", 1);
  EXPECT_EQ(cuda_library_candidates("nvrtc").front(), "/my/cuda/libnvrtc.so.13");
  unsetenv("DWELL_CUDA_PATH");
  EXPECT_NE(cuda_library_candidates("nvrtc").front(), "/my/cuda/libnvrtc.so.13");
}

}  // namespace
}  // namespace dwell::jit
