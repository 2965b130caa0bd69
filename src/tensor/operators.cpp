#include "tensor/operators.hpp"

#include <utility>

#include "tensor/device/program.hpp"

namespace dwell::tensor {

namespace {

// The longest program: eight dimensions, all tensors, instructions and numbers.
constexpr std::uint32_t kMostWords =
    device::ProgramWords::words(true, device::kMaxDims, device::kMaxTensors, device::kMaxInstructions, device::kMaxConstants);
static_assert(kMostWords <= 320, "the operator below takes as many");

constexpr const char* kElementwiseText = R"(#include "tensor/device/elementwise.hpp"

template <dwell::u32 count>
struct Words {
  dwell::u32 at[count];
};

template <dwell::u32 count>
DWELL_OPERATOR(dwell_elementwise)(dwell::Group g, const Words<count>& program) {
  dwell::device::run_program(g, program.at);
}
)";

}  // namespace

const OwnSource kElementwise{"dwell_elementwise", kElementwiseText, {"dwell_elementwise<93>", "dwell_elementwise<320>"}};

namespace {

bool is_cuda(const Runtime& runtime) { return runtime.info().device.starts_with("cuda"); }

}  // namespace

CompileOptions program_options(const Runtime& runtime) {
  CompileOptions options = runtime.options().compile;
  if (is_cuda(runtime)) options = {.max_registers = kRegisters};
  options.contract = false;
  return options;
}

Operators::Operators(Runtime& runtime) : runtime_(&runtime), on_cuda_(is_cuda(runtime)) {}

const Operator<>& Operators::get(const OwnSource& source, std::size_t instance) {
  for (const auto& [known, instances] : known_)
    if (known == &source) return instances.at(instance);
  Definition how;
  how.instances = source.instances;
  if (&source == &kElementwise)
    how.options = program_options(*runtime_);
  else if (on_cuda_)
    how.options = CompileOptions{.max_registers = kRegisters};
  // Equal requests give one operator.
  const Operator<> first = runtime_->define_async(source.name, Source(source.text, "dwell/" + std::string(source.name) + ".op"), how).get();
  std::vector<Operator<>> all{first};
  for (std::size_t i = 1; i < source.instances.size(); ++i) all.push_back(first.instance(source.instances[i]));
  return known_.emplace_back(&source, std::move(all)).second.at(instance);
}

}  // namespace dwell::tensor
