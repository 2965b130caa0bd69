// Ordinary kernels from source to cubin. Needs NVRTC but no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jit/base/temporary_directory.hpp"
#include "jit/cache/caching_compiler.hpp"
#include "jit/cuda/cuda_compiler.hpp"
#include "tests/unit/cuda_test.hpp"
#include "tests/unit/expect_error.hpp"

namespace dwell::jit {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSource = R"(
struct P { float a; double b; int c[3]; };
enum class E : short { x };
namespace ns { template <class T> struct V { T v; }; }
template <class T> __global__ void axpy(T a, const T* x, T* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
template <class T, int N> __global__ void reduce(const T* x, T* y) { y[0] = x[N]; }
extern "C" __global__ void scale(P p, float* y, bool b, unsigned short s) { y[0] = p.a; }
__global__ void plain(P p, E e, ns::V<float> v, void* raw, const P* many, float** rows, unsigned long long u, char c) {}
namespace ns { __global__ void over(int* x) { *x = 1; } __global__ void over(float* x) { *x = 1; } }
namespace { __global__ void hidden(int* x) { *x = 2; } }
__global__ void none() { int spare; }
struct Large { int words[2000]; };
__global__ void large(Large l, float* y) { y[0] = l.words[7]; }
__device__ int helper(int x) { return x; }
)";

class CudaModuleTest : public CudaTest {
 protected:
  static ModuleObject compile(const std::string& text, const std::vector<std::string>& expressions = {},
                              const std::string& arch = "sm_90") {
    CudaCompiler compiler({.arch = arch, .cache = {}});
    return compiler.compile_module(unit_of(text, expressions));
  }
  static Unit unit_of(const std::string& text, const std::vector<std::string>& expressions, const std::string& file = "mine.cu",
                      int line = 1) {
    Unit unit{"kernels", text, file, line, {}};
    for (const std::string& expression : expressions) unit.exports.push_back({expression, ""});
    unit.program = true;
    return unit;
  }
  static std::string text_of(const ModuleObject& object, const std::string& symbol) {
    for (const ModuleKernel& kernel : object.kernels)
      if (kernel.symbol == symbol) return kernel.name + kernel.signature.text();
    return "no " + symbol;
  }
};

TEST_F(CudaModuleTest, SignaturesMatchTheSource) {
  for (const char* const arch : {"sm_80", "sm_90", "sm_100"}) {
    SCOPED_TRACE(arch);
    const ModuleObject object = compile(kSource, {"axpy<float>", "reduce<double, 256>", "&axpy<unsigned char>"}, arch);
    EXPECT_EQ(text_of(object, "_Z4axpyIfEvT_PKS0_PS0_i"), "axpy<float>(float, const float*, float*, i32)");
    EXPECT_EQ(text_of(object, "_Z6reduceIdLi256EEvPKT_PS0_"), "reduce<double, 256>(const double*, double*)");
    EXPECT_EQ(text_of(object, "_Z4axpyIhEvT_PKS0_PS0_i"), "axpy<unsigned char>(u8, const u8*, u8*, i32)");
    EXPECT_EQ(text_of(object, "scale"), "scale(32 bytes of any kind, 8 bytes of any kind, 1 bytes of any kind, 2 bytes of any kind)");
    EXPECT_EQ(text_of(object, "_Z5plain1P1EN2ns1VIfEEPvPKS_PPfyc"),
              "plain(struct of 32 bytes, struct of 2 bytes, struct of 4 bytes, void*, const struct*, pointer*, u64, i8)");
    EXPECT_EQ(text_of(object, "_ZN2ns4overEPf"), "ns::over(float*)");
    EXPECT_EQ(text_of(object, "_Z4nonev"), "none()");
    EXPECT_EQ(text_of(object, "_Z5large5LargePf"), "large(struct of 8000 bytes, float*)");
    EXPECT_EQ(object.kernels.size(), 10U) << "helper is no kernel, hidden is one";
    EXPECT_THAT(object.log, HasSubstr("\"spare\" was declared but never referenced")) << "warnings are kept";
    EXPECT_THAT(object.assembly, HasSubstr(std::string(".target ") + arch));
    EXPECT_THAT(object.assembly, HasSubstr(".entry _Z4axpyIfEvT_PKS0_PS0_i"));
  }
}

TEST_F(CudaModuleTest, NameExpressionsHaveTheirSymbols) {
  const ModuleObject object = compile(kSource, {"axpy<float>", "(void (*)(int*))ns::over"});
  ASSERT_EQ(object.expressions.size(), 2U);
  EXPECT_EQ(object.expressions[0], std::pair(std::string("axpy<float>"), std::string("_Z4axpyIfEvT_PKS0_PS0_i")));
  EXPECT_EQ(object.expressions[1].second, "_ZN2ns4overEPi");
}

TEST_F(CudaModuleTest, ErrorsCarryTheUsersFileAndLine) {
  CudaCompiler compiler({.arch = "sm_90", .cache = {}});
  for (const int line : {1, 40}) {
    try {
      compiler.compile_module(unit_of("\n__global__ void broken() { nonsense; }\n", {}, "folder/mine.cu", line));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), errc::compile_failed);
      EXPECT_THAT(error.message(), HasSubstr("folder/mine.cu(" + std::to_string(line + 1) + ")"));
      EXPECT_THAT(error.message(), HasSubstr("nonsense"));
    }
  }
}

TEST_F(CudaModuleTest, ABadNameExpressionIsNamed) {
  try {
    compile(kSource, {"axpy<float>", "axpi<float>", "ns::over"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::operator_not_found);
    EXPECT_THAT(error.message(), HasSubstr("by the name of axpi<float>, ns::over:"));
    EXPECT_THAT(error.message(), Not(HasSubstr("axpy<float>")));
  }
  try {
    compile(kSource, {"helper"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), errc::operator_not_found);
    EXPECT_THAT(error.message(), HasSubstr("helper"));
  }
}

TEST_F(CudaModuleTest, DwellAndCudaHeadersAreFound) {
  const ModuleObject object = compile(
      "#include <cuda_fp16.h>\n#include <dwell/device.hpp>\n"
      "__global__ void fill(dwell::Span<float> to, __half value) { to[threadIdx.x] = __half2float(value); }\n");
  ASSERT_EQ(object.kernels.size(), 1U);
  EXPECT_EQ(object.kernels[0].name, "fill");
  EXPECT_EQ(object.kernels[0].signature.text(), "(struct of 16 bytes, struct of 2 bytes)");
}

TEST_F(CudaModuleTest, OptionsAreHonoured) {
  CudaCompiler compiler({.arch = "sm_90", .cache = {}});
  Unit unit = unit_of("#include \"values.hpp\"\nextern \"C\" __global__ void f(float* x) { x[0] = VALUE / kOther; }\n", {});
  const std::string plain = compiler.fingerprint(unit_of(unit.text, {}));
  unit.options = CompileOptions().with_define("VALUE", "x[1]").with_header("values.hpp", "constexpr float kOther = 3;\n");
  const ModuleObject exact = compiler.compile_module(unit);
  const std::string fingerprint = compiler.fingerprint(unit);
  EXPECT_NE(fingerprint, plain);
  unit.options.fast_math = true;
  EXPECT_NE(compiler.compile_module(unit).assembly, exact.assembly);
  EXPECT_NE(compiler.fingerprint(unit), fingerprint);
  unit.options.arch = "sm_80";
  DWELL_EXPECT_ERROR(compiler.compile_module(unit), errc::invalid_argument, HasSubstr("sm_90"));
}

TEST_F(CudaModuleTest, ATextWithANullCharacterIsRefused) { EXPECT_THROW(compile(std::string("__global__ void f() {}\0", 23)), Error); }

TEST_F(CudaModuleTest, CachedModulesAreIdentical) {
  const TemporaryDirectory folder;
  ModuleObject objects[2];
  for (ModuleObject& object : objects) {
    CachingCompiler compiler(std::make_unique<CudaCompiler>(CudaCompiler::Options{.arch = "sm_90", .cache = {}}),
                             FileCache(folder.path() / "cache"));
    Unit unit = unit_of(kSource, {"axpy<float>"});
    unit.fingerprint = compiler.fingerprint(unit);
    object = compiler.compile_module(unit);
  }
  EXPECT_EQ(objects[0].bytes, objects[1].bytes);
  EXPECT_EQ(objects[0].assembly, objects[1].assembly);
  EXPECT_EQ(objects[0].expressions, objects[1].expressions);
  ASSERT_EQ(objects[0].kernels.size(), objects[1].kernels.size());
  for (std::size_t i = 0; i < objects[0].kernels.size(); ++i) {
    EXPECT_EQ(objects[0].kernels[i].symbol, objects[1].kernels[i].symbol);
    EXPECT_EQ(objects[0].kernels[i].name, objects[1].kernels[i].name);
    EXPECT_EQ(objects[0].kernels[i].signature, objects[1].kernels[i].signature);
  }
}

}  // namespace
}  // namespace dwell::jit
