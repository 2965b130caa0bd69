#include "jit/object/kernel_signature.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "jit/object/elf.hpp"
#include "jit/object/nv_info.hpp"

namespace dwell::jit {

namespace {

// Returns the sizes of a kernel's parameters by ordinal; nothing if the section is invalid.
std::optional<std::vector<std::size_t>> parameter_sizes(std::span<const std::byte> info) {
  using nv_info::Number;
  std::vector<std::size_t> sizes;
  const bool whole = nv_info::for_each(info, [&](const nv_info::Attribute& attribute) {
    const bool large = attribute.number == Number::large_parameter;
    if ((attribute.number != Number::parameter && !large) || attribute.value.size() != 12) return;
    const auto ordinal = nv_info::value_at<std::uint16_t>(attribute.value, 4);
    if (sizes.size() <= ordinal) sizes.resize(ordinal + std::size_t{1});
    sizes[ordinal] =
        large ? nv_info::value_at<std::uint16_t>(attribute.value, 8) : nv_info::value_at<std::uint32_t>(attribute.value, 8) >> 18U;
  });
  if (!whole || std::ranges::find(sizes, std::size_t{0}) != sizes.end()) return std::nullopt;
  return sizes;
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : std::string();
}

// Returns the start of the parameter list at the end of `text`; npos if there is none.
std::size_t list_start(std::string_view text) {
  if (!text.ends_with(')')) return std::string_view::npos;
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    if (text[at] == ')') ++depth;
    if (text[at] == '(' && --depth == 0) return at;
  }
  return std::string_view::npos;
}

// Calls `at(i)` for each `wanted` in `text` outside of brackets.
template <class At>
void for_each_outer(std::string_view text, char wanted, At at) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::string_view("(<[{").find(text[i]) != std::string_view::npos) ++depth;
    if (std::string_view(")>]}").find(text[i]) != std::string_view::npos) --depth;
    if (text[i] == wanted && depth == 0) at(i);
  }
}

// Returns "n::f<int>" for "void n::(anonymous namespace)::f<int>(int)".
std::string name_of(std::string_view text) {
  const std::size_t end = list_start(text);
  if (end == std::string_view::npos || end == 0) return {};
  std::string name(text.substr(0, end));
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  for (std::size_t at = 0; (at = name.find(anonymous)) != std::string::npos;) name.erase(at, anonymous.size());
  // Strip the return type, which only templates have.
  std::size_t start = 0;
  for_each_outer(name, ' ', [&](std::size_t at) { start = at + 1; });
  return name.substr(start);
}

bool strip_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

struct Builtin {
  std::string_view name;
  Kind kind;
  std::uint16_t bytes;
};
constexpr Builtin kBuiltins[] = {
    {"bool", Kind::boolean, 1},
    {"char", Kind::signed_integer, 1},
    {"signed char", Kind::signed_integer, 1},
    {"short", Kind::signed_integer, 2},
    {"int", Kind::signed_integer, 4},
    {"long", Kind::signed_integer, 8},
    {"long long", Kind::signed_integer, 8},
    {"unsigned char", Kind::unsigned_integer, 1},
    {"unsigned short", Kind::unsigned_integer, 2},
    {"unsigned int", Kind::unsigned_integer, 4},
    {"unsigned long", Kind::unsigned_integer, 8},
    {"unsigned long long", Kind::unsigned_integer, 8},
    {"float", Kind::floating, 4},
    {"double", Kind::floating, 8},
};

const Builtin* builtin(std::string_view type) {
  const auto* const at = std::ranges::find(kBuiltins, type, &Builtin::name);
  return at == std::end(kBuiltins) ? nullptr : at;
}

Parameter pointer_to(std::string_view element) {
  bool constant = false;
  for (bool more = true; more;) {
    more = strip_suffix(element, " volatile") || strip_suffix(element, " __restrict");
    if (strip_suffix(element, " const")) constant = more = true;
  }
  const Kind kind = constant ? Kind::const_pointer : Kind::pointer;
  if (element == "void") return {kind, Kind::opaque, 0};
  if (element.ends_with('*')) return {kind, Kind::pointer, 8};
  if (const Builtin* const known = builtin(element)) return {kind, known->kind, known->bytes};
  return {kind, Kind::structure, 0};
}

Signature signature_of(std::string_view text, const std::vector<std::size_t>& sizes) {
  const std::vector<std::string_view> types = parameter_types(text);
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // If they disagree, trust the image.
    if (types.size() == sizes.size())
      parameters.push_back(kernel_parameter(types[i], sizes[i]));
    else
      parameters.push_back({Kind::opaque, Kind::structure, static_cast<u16>(sizes[i])});
  }
  return Signature(std::move(parameters));
}

}  // namespace

std::vector<std::string_view> parameter_types(std::string_view demangled) {
  const std::size_t start = list_start(demangled);
  if (start == std::string_view::npos) return {};
  const std::string_view list = demangled.substr(start + 1, demangled.size() - start - 2);
  if (list.empty() || list == "void") return {};
  std::vector<std::string_view> types;
  std::size_t from = 0;
  const auto take = [&](std::size_t end) {
    std::string_view type = list.substr(from, end - from);
    type.remove_prefix(std::min(type.find_first_not_of(' '), type.size()));
    types.push_back(type);
    from = end + 1;
  };
  for_each_outer(list, ',', take);
  take(list.size());
  return types;
}

Parameter kernel_parameter(std::string_view type, std::size_t bytes) {
  if (bytes == 8 && !type.ends_with("::*") && strip_suffix(type, "*")) return pointer_to(type);
  // A pointer to an array: "float (*) [4]".
  if (bytes == 8 && type.ends_with(']') && type.find("(*)") != std::string_view::npos) {
    return {type.find(" const ") != std::string_view::npos ? Kind::const_pointer : Kind::pointer, Kind::opaque, 0};
  }
  const Builtin* const known = builtin(type);
  if (known != nullptr && known->bytes == bytes) return {known->kind, Kind::structure, known->bytes};
  return {Kind::structure, Kind::structure, static_cast<u16>(bytes)};
}

std::vector<ModuleKernel> read_kernels(std::span<const std::byte> cubin) {
  std::vector<ModuleKernel> kernels;
  const auto elf = Elf::open(cubin);
  if (!elf) return kernels;
  for (const Elf::Symbol& symbol : elf->symbols()) {
    const std::string name(symbol.name);
    if (symbol.section == 0 || (symbol.other & nv_info::kEntryPoint) == 0 || elf->section(".text." + name) == nullptr) continue;
    const Elf::Section* const info = elf->section(".nv.info." + name);
    const auto sizes = parameter_sizes(info == nullptr ? std::span<const std::byte>() : info->bytes);
    if (!sizes) throw Error(errc::compile_failed, "the compiled image does not say what kernel " + name + " takes");
    const std::string text = demangled(name);
    const std::string plain = name_of(text);
    kernels.push_back({name, plain.empty() ? name : plain, signature_of(text, *sizes)});
  }
  return kernels;
}

}  // namespace dwell::jit
