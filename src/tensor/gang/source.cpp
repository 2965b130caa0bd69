#include "tensor/gang/source.hpp"

#include <algorithm>
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
constexpr const char* kHeaderOnCall = "#include \"tensor/device/resident_member.hpp\"\n";
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
DWELL_DEVICE void run_steps(GangMember& m, const u32* at) {
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

constexpr const char* kRunOnce = R"(
DWELL_DEVICE void run_all(GangMember& m, const u32* list, u32) { run_0(m, list); }

)";
constexpr const char* kRunRepeated = R"(
DWELL_DEVICE void run_all(GangMember& m, const u32* list, u32 repeats) {
  run_0(m, list);
  DWELL_UNROLL_NOT
  for (u32 turn = 0; turn < repeats; ++turn) {
    m.begin_turn(turn, turn + 1 == repeats);
    run_1(m, list);
  }
  run_2(m, list);
}

)";

// State goes back to memory only where a run has changed it.
constexpr const char* kRunOnCall = R"(
DWELL_DEVICE void run_all(GangMember& m, const u32* list) {
  run_0(m, list);
  u32 runs = 0;
  DWELL_UNROLL_NOT
  for (;; ++runs) {
    run_1(m, list);
    if (m.is_over()) break;
  }
  if (runs != 0) run_2(m, list);
}

)";

// The kernel's list: passed by value, or copied by each member.
constexpr const char* kPassedList = R"(struct List {
  u32 at[kListWords];
};
)";
constexpr const char* kBeginKernel = R"(extern "C" __global__ void __launch_bounds__(kThreads)
    dwell_gang()";
constexpr const char* kArguments = "u64* words, u32* numbers, u32 repeats) {\n";
constexpr const char* kArgumentsOnCall = "u64* words, u32* numbers, const __grid_constant__ StepMemory step) {\n";
constexpr const char* kMemory = "  extern __shared__ __align__(16) u8 memory[];\n";
constexpr const char* kCopyList = R"(  u32* const own = reinterpret_cast<u32*>(memory);
  for (u32 i = threadIdx.x; i < kListWords; i += kThreads) own[i] = list[i];
)";

// On a CPU the host may call the function of the operator, which tells where it is.
constexpr const char* kFunction = R"(static void run_here(const u32* list, u8* local, u32 repeats) {
  Member m(0, 0, local, nullptr, 0, nullptr);
  run_all(m, list, repeats);
}

)";
constexpr const char* kOperator = R"()(Group, Span<const u32> list, Span<u8> local, Span<u64> place, u32 repeats) {
  if (place.size() != 0)
    place[0] = reinterpret_cast<u64>(&run_here);
  else
    run_here(list.data(), local.data(), repeats);
}
)";

// A worker of the loop. Without the memory all members return at once.
constexpr const char* kInLoop = "#define DWELL_MEMBER_IN_LOOP 1\n";
constexpr const char* kOperatorInLoop = R"()(Group g, Span<const u32> list, Span<u64> words, Span<u32> numbers, u32 repeats) {
  static_assert(kThreads == kGroupThreads, "a member is a group");
  const Span<u8> memory = g.shared<u8>(kMemberBytes);
  if (memory.size() == 0) return;
  u32* const own = reinterpret_cast<u32*>(memory.data());
  for (u32 i = g.rank(); i < kListWords; i += kThreads) own[i] = list[i];
  Member m(g.index(), g.rank(), memory.data() + kListBytes, words.data(), kExchanged, numbers.data());
  m.sync();
  run_all(m, own, repeats);
  m.end();
}
)";

constexpr const char* kFunctionOfMember =
    R"(static void run_member(u32 rank, const u32* list, u8* local, u64* words, u32* numbers, u32 repeats) {
  Member m(rank, 0, local, words, kExchanged, numbers);
  run_all(m, list, repeats);
  m.end();
}

)";
constexpr const char* kFunctionOfMemberOnCall =
    R"(static void run_member(u32 rank, const u32* list, u8* local, u64* words, u32* numbers, const StepMemory* step) {
  ResidentMember m(rank, 0, local, words, kExchanged, numbers, kMembers, *step);
  run_all(m, list);
  m.end();
}

)";
constexpr const char* kOperatorOfMember = R"()(Group, Span<u64> place) { place[0] = reinterpret_cast<u64>(&run_member); }
)";

constexpr std::size_t kMostPassedWords = 1000;  // a kernel has 4 KiB of arguments
constexpr std::size_t kMostWrittenOut = 64;     // steps, one behind the other in the text: beyond, code is fetched more slowly than a list

std::string kernel_of(const Plan& plan) {
  const bool passes = passes_list(plan);
  std::string text = passes ? kPassedList : "";
  text += kBeginKernel;
  text += passes ? "const __grid_constant__ List list, " : "const u32* list, ";
  text += plan.on_call ? kArgumentsOnCall : kArguments;
  text += kMemory;
  if (!passes) text += kCopyList;
  text += std::string("  ") + (plan.on_call ? "ResidentMember" : "Member") + " m(blockIdx.x, threadIdx.x, memory" +
          (passes ? "" : " + kListBytes") + ", words, kExchanged, numbers" + (plan.on_call ? ", kMembers, step" : "") + ");\n";
  if (!passes) text += "  m.sync();\n";
  text += std::string("  run_all(m, ") + (passes ? "list.at" : "own") + (plan.on_call ? "" : ", repeats") + ");\n  m.end();\n}\n";
  return text;
}

}  // namespace

bool passes_list(const Plan& plan) { return plan.list.size() <= kMostPassedWords; }

std::uint64_t list_bytes(const Plan& plan) {
  const std::uint64_t bytes = plan.list.size() * sizeof(std::uint32_t);
  return (bytes + device::kMemberAlignment - 1) / device::kMemberAlignment * device::kMemberAlignment;
}

Source source_of(const Plan& plan, Runner runner) {
  std::string text = runner == Runner::loop ? kInLoop : "";
  text += runner == Runner::cpu ? kHeadersOnCpu : kHeaders;
  if (plan.on_call) text += kHeaderOnCall;
  text += kBegin;
  text += std::string("using GangMember = ") + (plan.on_call ? "ResidentMember" : "Member") + ";\n";
  text += constant("kMembers", plan.members) + constant("kThreads", plan.threads) + constant("kExchanged", plan.exchanged);
  text += constant("kListWords", plan.list.size()) + constant("kListBytes", list_bytes(plan));
  if (runner == Runner::loop) text += constant("kMemberBytes", bytes_in_loop(plan));
  std::string cases;
  for (std::size_t i = 0; i < plan.forms.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    const std::string name = "form_" + number;
    text += "\n// " + plan.remarks[i] + "\n";
    if (!plan.forms[i].members.empty()) text += "struct Form" + number + " {\n" + plan.forms[i].members + "};\n";
    text += "DWELL_DEVICE void " + name + "(GangMember& m, const u32* at) {\n  (void)m, (void)at;\n";
    if (!plan.forms[i].members.empty()) text += "  using Form = Form" + number + ";\n";
    text += plan.forms[i].body + "}\n";
    cases += "      case " + std::to_string(i + 1) + ": " + name + "(m, at + 1); break;\n";
  }
  // A CPU hardly notices the list, and its compiler would make the same loops anew for each step.
  bool interpreted = runner == Runner::cpu || runner == Runner::threads;
  for (std::size_t list = 0; list < plan.begins.size(); ++list) interpreted |= steps_of(plan, list).size() > kMostWrittenOut;
  if (interpreted) text += kRun + cases + kNext;
  for (std::size_t list = 0; list < plan.begins.size(); ++list) {
    text += "\nDWELL_DEVICE void run_" + std::to_string(list) + "(GangMember& m, const u32* list) {\n  (void)m, (void)list;\n";
    const std::vector<std::size_t> steps = steps_of(plan, list);
    const bool waits = plan.on_call && list == 1;
    std::size_t written = interpreted ? 0 : steps.size();
    if (waits) written = std::max<std::size_t>(written, 1);
    for (std::size_t i = 0; i < written; ++i) {
      const std::uint32_t head = plan.list[steps[i]];
      text +=
          "  form_" + std::to_string(head & ((1U << device::kStepFormBits) - 1)) + "(m, list + " + std::to_string(steps[i] + 1) + ");\n";
      if ((head & device::kStepSync) != 0) text += "  m.sync();\n";
      if (waits && i == 0) text += "  if (m.is_over()) return;\n";
    }
    if (written < steps.size()) text += "  run_steps(m, list + " + std::to_string(steps[written]) + ");\n";
    text += "}\n";
  }
  text += plan.on_call ? kRunOnCall : plan.begins.size() == 1 ? kRunOnce : kRunRepeated;
  if (runner == Runner::cuda) return {kKernelName, text + kernel_of(plan)};
  const std::string name = "dwell_gang_" + hash_of(text);
  if (runner == Runner::loop) return {name, text + "\nDWELL_OPERATOR(" + name + kOperatorInLoop};
  const bool of_member = runner == Runner::threads;
  const char* const function_of_member = plan.on_call ? kFunctionOfMemberOnCall : kFunctionOfMember;
  text += of_member ? function_of_member : kFunction;
  return {name, text + "DWELL_OPERATOR(" + name + (of_member ? kOperatorOfMember : kOperator)};
}

}  // namespace dwell::tensor::gang
