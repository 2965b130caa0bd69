#include "tensor/gang/source.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

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

constexpr const char* kBegin = R"(#include "tensor/device/element.hpp"
#include "tensor/device/member_product.hpp"
#include "tensor/device/member_rows.hpp"

using namespace dwell;
using namespace dwell::device;

)";

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
  Member m(blockIdx.x, threadIdx.x, memory + kListBytes, words, kExchanged, numbers[blockIdx.x]);
  m.sync();
  run_list(m, own);
  if (threadIdx.x == 0) numbers[blockIdx.x] = m.number();
}
)";

}  // namespace

std::uint64_t list_bytes(const Plan& plan) {
  const std::uint64_t bytes = plan.list.size() * sizeof(std::uint32_t);
  return (bytes + device::kMemberAlignment - 1) / device::kMemberAlignment * device::kMemberAlignment;
}

Source source_of(const Plan& plan, bool on_cuda) {
  std::string text = kBegin;
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
  text += kRun + cases + kNext;
  if (on_cuda) return {kKernelName, text + kKernel};
  const std::string name = "dwell_gang_" + hash_of(text);
  text += "DWELL_OPERATOR(" + name + ")(Group g, Span<const u32> list, Span<u8> local) {\n  Member m(0, g.rank(), local.data(), nullptr, 0, 0);\n" +
          "  run_list(m, list.data());\n}\n";
  return {name, text};
}

}  // namespace dwell::tensor::gang
