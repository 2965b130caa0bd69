#include "jit/object/cubin.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include <dwell/device/signature.hpp>

#include "jit/object/nv_info.hpp"

namespace dwell::jit {

namespace {

// Undocumented, like the attributes (nv_info.hpp). NVRTC 12.4 writes ABI version 7, 13.0 writes 8.
constexpr std::uint8_t kWideArchitecture =
    8;                                    // from this ABI version on, the architecture is in bits 8 to 23 of e_flags; before, in 0 to 7
constexpr std::uint32_t kReserving = 90;  // from this architecture on, the shared memory section includes the bytes CUDA reserves per block
constexpr std::uint32_t kReservedShared = 1024;              // these bytes
constexpr std::string_view kConstants = ".nv.constant3";     // __constant__ variables of the whole image; bank 0 holds parameters
constexpr std::string_view kOwnShared = ".nv_debug.shared";  // __shared__ variables of an object that is not linked
constexpr unsigned kDeepest = 256;  // depth to which nested calls are followed: more than compilers emit for an operator

using nv_info::Attribute;
using nv_info::Number;

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t offset) { return nv_info::value_at<std::uint32_t>(bytes, offset); }

// Clamps a figure to 32 bits: it must not wrap around, since figures are compared with limits.
std::uint32_t saturated(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::uint32_t>::max()));
}
std::uint32_t product(std::uint32_t a, std::uint32_t b) { return saturated(std::uint64_t{a} * b); }

std::uint32_t size_of(const Elf& elf, std::string_view section) {
  const Elf::Section* const at = elf.section(section);
  return at == nullptr ? 0 : saturated(at->size);
}

std::string joined(std::string_view prefix, std::string_view name) { return std::string(prefix).append(name); }

}  // namespace

Statics read_statics(std::span<const std::byte> object) {
  const auto elf = Elf::open(object);
  if (!elf || elf->machine() != nv_info::kMachine) return {};
  return {size_of(*elf, kOwnShared), size_of(*elf, kConstants)};
}

std::optional<Cubin> Cubin::open(std::span<const std::byte> bytes) {
  auto elf = Elf::open(bytes);
  if (!elf || elf->machine() != nv_info::kMachine) return std::nullopt;
  Cubin cubin(*std::move(elf));
  cubin.read_functions();
  cubin.read_calls();
  return cubin;
}

void Cubin::read_functions() {
  const Elf::Section* const info = elf_.section(".nv.info");
  if (info == nullptr) return;
  nv_info::for_each(info->bytes, [&](const Attribute& attribute) {
    if (attribute.value.size() != 8) return;  // {symbol, value}
    const std::uint32_t symbol = word_at(attribute.value, 0);
    const std::uint32_t value = word_at(attribute.value, 4);
    if (attribute.number == Number::register_count) functions_[symbol].registers = value;
    if (attribute.number == Number::frame_size) functions_[symbol].frame_bytes = value;
    if (attribute.number == Number::min_stack_size) functions_[symbol].min_stack_bytes = value;
  });
}

// .nv.callgraph holds pairs {caller, callee} of symbols, in parts that begin with {0, -1}, {0, -2}, ... The first part lists direct calls,
// the others calls through pointers.
void Cubin::read_calls() {
  const Elf::Section* const graph = elf_.section(".nv.callgraph");
  if (graph == nullptr) return;
  for (std::size_t at = 8; at + 8 <= graph->bytes.size(); at += 8) {
    const std::uint32_t caller = word_at(graph->bytes, at);
    if (caller == 0) return;
    calls_.emplace(caller, word_at(graph->bytes, at + 4));
  }
}

std::uint32_t Cubin::architecture() const {
  return elf_.abi_version() >= kWideArchitecture ? (elf_.flags() >> 8U) & 0xFFFFU : elf_.flags() & 0xFFU;
}

std::vector<std::string_view> Cubin::kernels() const {
  std::vector<std::string_view> names;
  for (const Elf::Symbol& symbol : elf_.symbols()) {
    if ((symbol.other & nv_info::kEntryPoint) != 0 && elf_.section(joined(".text.", symbol.name)) != nullptr) names.push_back(symbol.name);
  }
  return names;
}

std::vector<std::string_view> Cubin::entries() const {
  std::vector<std::string_view> names;
  for (const Elf::Symbol& symbol : elf_.symbols()) {
    if (elf_.section(joined(".text.", symbol.name)) == nullptr) continue;
    if (elf_.symbol_bytes(std::string(symbol.name) + "_signature").size() == sizeof(SignatureRecord)) names.push_back(symbol.name);
  }
  return names;
}

std::span<const std::byte> Cubin::info_of(std::string_view function) const {
  const Elf::Section* const info = elf_.section(joined(".nv.info.", function));
  return info == nullptr ? std::span<const std::byte>() : info->bytes;
}

std::uint32_t Cubin::barriers_of(std::string_view function, const Elf::Section& code) const {
  // Older formats keep them in the flags of the code section.
  auto barriers = static_cast<std::uint32_t>(code.flags >> 20U) & 0x7FU;
  nv_info::for_each(info_of(function), [&](const Attribute& attribute) {
    if (attribute.number == Number::barriers) barriers = attribute.small & 0xFFU;
  });
  return barriers;
}

Resources Cubin::reach(std::uint32_t symbol, std::map<std::uint32_t, Resources>& known, unsigned depth) const {
  if (const auto at = known.find(symbol); at != known.end()) return at->second;
  Resources& all = known[symbol];  // also ends recursion, whose stack size is unknown
  if (symbol >= elf_.symbols().size() || depth > kDeepest) return all;
  const std::string_view name = elf_.symbols()[symbol].name;
  if (const auto at = functions_.find(symbol); at != functions_.end())
    all = {.registers = at->second.registers, .stack_bytes = at->second.frame_bytes};
  if (const Elf::Section* const code = elf_.section(joined(".text.", name))) {
    // Older formats keep the registers in the upper byte of the code section's info.
    if (all.registers == 0) all.registers = code->info >> 24U;
    all.barriers = barriers_of(name, *code);
  }
  std::uint32_t deepest = 0;
  const auto [first, last] = calls_.equal_range(symbol);
  for (auto call = first; call != last; ++call) {
    const Resources callee = reach(call->second, known, depth + 1);
    all.registers = std::max(all.registers, callee.registers);
    all.barriers = std::max(all.barriers, callee.barriers);
    deepest = std::max(deepest, callee.stack_bytes);
  }
  all.stack_bytes = saturated(std::uint64_t{all.stack_bytes} + deepest);
  return all;
}

std::optional<Resources> Cubin::function(std::string_view name) const {
  const Elf::Symbol* const symbol = elf_.symbol(name);
  if (symbol == nullptr || elf_.section(joined(".text.", name)) == nullptr) return std::nullopt;
  std::map<std::uint32_t, Resources> known;
  const Resources resources = reach(symbol->index, known, 0);
  if (resources.registers == 0) return std::nullopt;
  return resources;
}

std::optional<Resources> Cubin::kernel(std::string_view name) const {
  auto resources = function(name);
  if (!resources) return std::nullopt;
  // Includes calls through pointers.
  if (const auto at = functions_.find(elf_.symbol(name)->index); at != functions_.end() && at->second.min_stack_bytes)
    resources->stack_bytes = *at->second.min_stack_bytes;
  const std::uint32_t shared = size_of(elf_, joined(".nv.shared.", name));
  resources->shared_bytes = architecture() >= kReserving && shared >= kReservedShared ? shared - kReservedShared : shared;
  resources->constant_bytes = size_of(elf_, kConstants);
  nv_info::for_each(info_of(name), [&](const Attribute& attribute) {
    if (attribute.number == Number::max_threads && attribute.value.size() == 12)
      resources->threads = product(product(word_at(attribute.value, 0), word_at(attribute.value, 4)), word_at(attribute.value, 8));
  });
  return resources;
}

std::optional<Resources> Cubin::entry(std::string_view symbol) const {
  auto resources = function(symbol);
  if (!resources) return std::nullopt;
  const auto statics = elf_.symbol_bytes(std::string(symbol) + "_statics");
  if (statics.size() != sizeof(Statics)) return resources;
  resources->shared_bytes = word_at(statics, 0);
  resources->constant_bytes = word_at(statics, 4);
  return resources;
}

}  // namespace dwell::jit
