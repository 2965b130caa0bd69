#include "tensor/program_source.hpp"

#include <array>
#include <cstddef>
#include <string_view>

#include "tensor/device/compiled_elementwise.hpp"

namespace dwell::tensor {

namespace {

using device::Lie;
using device::ProgramWords;

constexpr std::uint32_t kLieShift = 8;  // above the type, in the word of a tensor

Lie lie_of(const ProgramWords& program, const std::uint32_t* tensor) {
  if (program.dims() != 1) return Lie::strided;
  switch (ProgramWords::stride(tensor, 0)) {
    case 0: return Lie::once;
    case 1: return Lie::neighbours;
    default: return Lie::strided;
  }
}

std::string_view name_of(Lie lie) {
  switch (lie) {
    case Lie::neighbours: return "neighbours";
    case Lie::once: return "once";
    case Lie::strided: break;
  }
  return "strided";
}

std::string hexadecimal(std::uint64_t value, int digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(static_cast<std::size_t>(digits), '0');
  for (auto at = text.rbegin(); at != text.rend(); ++at, value >>= 4U) *at = kDigits[value & 0xFU];
  return text;
}

}  // namespace

void take_form(std::span<const std::uint32_t> words, ProgramForm& form) {
  const ProgramWords program(words.data());
  form.assign(1, words[0] & ~(ProgramWords::kPlain | ProgramWords::kPacked | ProgramWords::kLight));  // flags for the interpreter only
  for (std::uint32_t i = 0; i < program.tensors(); ++i) {
    const std::uint32_t* const tensor = program.tensor(i);
    form.push_back(static_cast<std::uint32_t>(ProgramWords::type(tensor)) | static_cast<std::uint32_t>(lie_of(program, tensor))
                                                                                << kLieShift);
  }
  form.insert(form.end(), program.code(), program.code() + program.instructions());
}

// FNV-1a, a word at a time.
std::uint64_t hash_of(const ProgramForm& form) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::uint32_t word : form) hash = (hash ^ word) * 0x100000001B3U;
  return hash ^ hash >> 32U;
}

std::string operator_name_of(const ProgramForm& form) { return "dwell_program_" + hexadecimal(hash_of(form), 16); }

std::string source_of(const ProgramForm& form) {
  const ProgramWords program(form.data());
  const std::uint32_t count =
      ProgramWords::words(program.wide(), program.dims(), program.tensors(), program.instructions(), program.constants());
  std::string text = "#include \"tensor/device/compiled_elementwise.hpp\"\n\nnamespace {\n\nstruct Program {\n";
  text += std::string("  static constexpr bool wide = ") + (program.wide() ? "true" : "false") + ";\n";
  text += "  static constexpr dwell::u32 dims = " + std::to_string(program.dims()) + ";\n";
  text += "  static constexpr dwell::device::ProgramTensor tensor[] = {\n";
  for (std::uint32_t i = 0; i < program.tensors(); ++i) {
    const std::uint32_t word = form[1 + i];
    text += "      {static_cast<dwell::ElementType>(" + std::to_string(word & 0xFFU) + "), dwell::device::Lie::";
    text.append(name_of(static_cast<Lie>(word >> kLieShift))).append("},\n");
  }
  text += "  };\n  static constexpr dwell::u32 code[] = {\n";
  for (std::size_t i = 1 + program.tensors(); i < form.size(); ++i) text += "      0x" + hexadecimal(form[i], 8) + ",\n";
  text += "  };\n};\nstruct Words {\n  dwell::u32 at[" + std::to_string(count) + "];\n};\n\n}  // namespace\n\n";
  text += "DWELL_OPERATOR(" + operator_name_of(form) + ")(dwell::Group g, const Words& program) {\n";
  text += "  dwell::device::run_compiled<Program>(g, program.at);\n}\n";
  return text;
}

}  // namespace dwell::tensor
