// Operators for CUDA: NVRTC compiles, nvJitLink links loop, operators and table into one image.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/cache/file_cache.hpp"
#include "jit/compiler.hpp"

namespace dwell::jit {

// Compiles each operator to a relocatable cubin or to LTO-IR. An image is a cubin that holds the loop, the operators, and the table
// `dwell_operators` (in constant memory, extern "C", one dwell::device::Entry an opcode and a null one behind the last) through which the
// loop calls them. For Tier::lto the loop is another one, compiled with DWELL_INLINE_OPERATORS: it calls the generated function
// `dwell_dispatch` (src/device/operator_table.hpp), into which operators in LTO-IR are inlined; only the others are in the table. That loop
// is compiled with registers for kInliningWorkers a multiprocessor, unless its operators need more.
class CudaCompiler final : public Compiler {
 public:
  static constexpr std::uint32_t kInliningWorkers = 5;
  struct Options {
    std::string arch;                       // the device's, "sm_90"; images are for sm_90a if NVRTC supports it
    std::string loop = default_loop();      // source of the kernel, which declares dwell_operators or dwell_dispatch extern
    std::string kernel = "dwell_resident";  // its name, extern "C"
    FileCache cache;                        // stores the compiled loops
  };
  // The compiler's figures of the loop alone, in Tier::relocatable.
  struct LoopReport {
    std::uint32_t spill_bytes = 0;  // of the kernel itself, a thread
    std::string log;                // the assembler's report on every function of the loop
  };

  // Opens nothing yet. Throws dwell::Error with errc::invalid_argument when `arch` is not of the form sm_90 or sm_90a.
  explicit CudaCompiler(Options options);
  ~CudaCompiler() override;

  // Returns the library's embedded source of the resident loop.
  static std::string default_loop();

  Object compile(const Unit& unit) override;
  std::string fingerprint(const Unit& unit) override;
  using Compiler::link;
  Image link(std::span<const Opcode> table, Tier tier, std::uint32_t parts) override;
  void prepare(std::uint32_t parts) override { loop(Dispatch::called, parts); }
  // Compiles the unchanged text as a whole program; it may include dwell's device headers and CUDA's own. ModuleObject::assembly is PTX.
  ModuleObject compile_module(const Unit& unit) override;
  // Throws dwell::Error with errc::compiler_unavailable when NVRTC or nvJitLink cannot be opened or does not know the architecture.
  std::string identity() const override;

  // Compiles the loop unless it is compiled already. Throws dwell::Error with errc::compile_failed or errc::compiler_unavailable.
  LoopReport loop_report(std::uint32_t parts = kAllParts);

 private:
  struct Tools;
  // How the loop runs its operators: called, inlined, or inlined without a register limit.
  enum class Dispatch : std::uint8_t { called, inlined, inlined_free };
  struct Loop;
  struct LoopPlace;
  struct State;
  // The compilers; found by the first call that needs them.
  const Tools& tools() const;
  // The compiler's flags for a source with `options`.
  // `program`: of ordinary kernels, not an operator.
  std::vector<std::string> flags_for(const CompileOptions& options, Form wanted = Form::native) const;
  // The flags of an operator's first compilation, possibly with a register limit.
  std::vector<std::string> operator_flags_for(const Unit& unit) const;
  std::vector<std::string> program_flags_for(const CompileOptions& options) const;
  static CompileOptions loop_options(Dispatch dispatch, std::uint32_t parts = kAllParts);
  const Loop& loop(Dispatch dispatch, std::uint32_t parts);
  // The functions of the heap that operators call, compiled on first use.
  const Bytes& heap(Form form);

  Options options_;
  std::unique_ptr<State> state_;
};

}  // namespace dwell::jit
