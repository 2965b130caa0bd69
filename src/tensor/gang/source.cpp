#include "tensor/gang/source.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/device/member.hpp"

namespace dwell::tensor::gang {

namespace {

std::string constant(const char* name, std::uint64_t value) {
  return std::string("constexpr u32 ") + name + " = " + std::to_string(value) + ";\n";
}

// FNV-1a.
std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (int i = 0; i < 16; ++i, hash >>= 4U) digits += kDigits[hash & 0xFU];
  return digits;
}

constexpr const char* kHeaders = R"(#include "tensor/device/element.hpp"
#include "tensor/device/member_product.hpp"
#include "tensor/device/member_rows.hpp"
)";
constexpr const char* kHeadersOnCpu = R"(#include "tensor/device/element.hpp"
#include "tensor/device/member_product_cpu.hpp"
#include "tensor/device/member_rows_cpu.hpp"
)";
constexpr const char* kBegin = R"(
using namespace dwell;
using namespace dwell::device;

)";

// A list of any length: an interpreter of steps.
constexpr const char* kRun = R"(
DWELL_DEVICE void run_list(Member& m, const u32* at) {
  for (;;) {
    const u32 head = *at;
    switch (head & ((1U << kStepFormBits) - 1)) {
)";

constexpr const char* kNext = R"(      default: return;
    }
    if ((head & kStepSync) != 0) m.sync();
    at += head >> kStepFormBits & kStepWords;
  }
}

)";

constexpr const char* kKernel = R"(extern "C" __global__ void __launch_bounds__(kThreads)
    dwell_gang(const u32* list, u64* words, u32* numbers) {
  extern __shared__ __align__(16) u8 memory[];
  u32* const own = reinterpret_cast<u32*>(memory);
  for (u32 i = threadIdx.x; i < kListWords; i += kThreads) own[i] = list[i];
  Member m(blockIdx.x, threadIdx.x, memory + kListBytes, words, kExchanged, numbers);
  m.sync();
  run_list(m, own);
  m.end();
}
)";

constexpr const char* kKernelOfPassed = R"(struct List {
  u32 at[kListWords];
};
extern "C" __global__ void __launch_bounds__(kThreads)
    dwell_gang(const __grid_constant__ List list, u64* words, u32* numbers) {
  extern __shared__ __align__(16) u8 memory[];
  Member m(blockIdx.x, threadIdx.x, memory, words, kExchanged, numbers);
  run_list(m, list.at);
  m.end();
}
)";

// On a CPU the host may call the function of the operator, which tells where it is.
constexpr const char* kFunction = R"(static void run_here(const u32* list, u8* local) {
  Member m(0, 0, local, nullptr, 0, nullptr);
  run_list(m, list);
}

)";
constexpr const char* kOperator = R"()(Group, Span<const u32> list, Span<u8> local, Span<u64> place) {
  if (place.size() != 0)
    place[0] = reinterpret_cast<u64>(&run_here);
  else
    run_here(list.data(), local.data());
}
)";

constexpr std::size_t kMostPassedWords = 1000;  // a kernel has 4 KiB of arguments
constexpr std::size_t kMostWrittenOut = 64;     // steps, one behind the other in the text: beyond, code is fetched more slowly than a list

// The steps of a list by their places.
std::vector<std::size_t> steps_of(const Plan& plan) {
  std::vector<std::size_t> steps;
  for (std::size_t at = 0; plan.list[at] != 0; at += plan.list[at] >> device::kStepFormBits & device::kStepWords) steps.push_back(at);
  return steps;
}

}  // namespace

bool passes_list(const Plan& plan) { return plan.list.size() <= kMostPassedWords; }

std::uint64_t list_bytes(const Plan& plan) {
  const std::uint64_t bytes = plan.list.size() * sizeof(std::uint32_t);
  return (bytes + device::kMemberAlignment - 1) / device::kMemberAlignment * device::kMemberAlignment;
}

Source source_of(const Plan& plan, bool on_cuda) {
  std::string text = on_cuda ? kHeaders : kHeadersOnCpu;
  text += kBegin;
  text += constant("kMembers", plan.members) + constant("kThreads", plan.threads) + constant("kExchanged", plan.exchanged);
  text += constant("kListWords", plan.list.size()) + constant("kListBytes", list_bytes(plan));
  std::string cases;
  for (std::size_t i = 0; i < plan.forms.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    const std::string name = "form_" + number;
    text += "\n// " + plan.remarks[i] + "\n";
    if (!plan.forms[i].members.empty()) text += "struct Form" + number + " {\n" + plan.forms[i].members + "};\n";
    text += "DWELL_DEVICE void " + name + "(Member& m, const u32* at) {\n  (void)m, (void)at;\n";
    if (!plan.forms[i].members.empty()) text += "  using Form = Form" + number + ";\n";
    text += plan.forms[i].body + "}\n";
    cases += "      case " + std::to_string(i + 1) + ": " + name + "(m, at + 1); break;\n";
  }
  const std::vector<std::size_t> steps = steps_of(plan);
  // A CPU hardly notices the list, and its compiler would make the same loops anew for each step.
  if (!on_cuda || steps.size() > kMostWrittenOut) {
    text += kRun + cases + kNext;
  } else {
    text += "\nDWELL_DEVICE void run_list(Member& m, const u32* list) {\n";
    for (const std::size_t at : steps) {
      text +=
          "  form_" + std::to_string(plan.list[at] & ((1U << device::kStepFormBits) - 1)) + "(m, list + " + std::to_string(at + 1) + ");\n";
      if ((plan.list[at] & device::kStepSync) != 0) text += "  m.sync();\n";
    }
    text += "}\n\n";
  }
  if (on_cuda) return {kKernelName, text + (passes_list(plan) ? kKernelOfPassed : kKernel)};
  const std::string name = "dwell_gang_" + hash_of(text);
  return {name, text + kFunction + "DWELL_OPERATOR(" + name + kOperator};
}

}  // namespace dwell::tensor::gang
