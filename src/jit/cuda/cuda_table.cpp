#include "jit/cuda/cuda_table.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "jit/cuda/nvrtc_options.hpp"
#include "jit/object/cubin.hpp"

namespace dwell::jit {

namespace {

// Returns the oldest PTX version that knows the architecture, or the newest that the linker is sure to read.
std::string ptx_version(int architecture, CudaVersion linker) {
  if (architecture <= 90) return "8.0";
  if (linker.major == 12) return linker.minor >= 9 ? "8.8" : "8.7";
  return "9.0";
}

// Returns PTX that records the static memory of an entry's object in the image.
std::string statics_source(const Object& object, const std::string& symbol) {
  const Statics statics = read_statics(object.bytes);
  return ".visible .global .align 4 .u32 " + symbol + "_statics[2] = {" + std::to_string(statics.shared_bytes) + ", " +
         std::to_string(statics.constant_bytes) + "};\n";
}

// Returns the words of `dwell_uses`, separated by commas; at least one.
std::string words_text(std::span<const Opcode> table) {
  std::string text = "0";
  const std::vector<std::uint32_t> words = words_of_uses(table);
  if (!words.empty()) text.clear();
  for (const std::uint32_t word : words) text += (text.empty() ? "" : ", ") + std::to_string(word);
  return text;
}

}  // namespace

// Returns PTX rather than C++: assembling takes 5 ms, NVRTC 25 ms. The functions must have the prototype of dwell::device::Entry: the
// linker gives the kernel the registers of functions whose prototype matches its indirect calls.
std::string table_source(std::span<const Opcode> table, Tier tier, const std::string& arch, CudaVersion linker) {
  std::string text = ".version " + ptx_version(architecture_number(arch), linker) + "\n.target " + arch + "\n.address_size 64\n";
  std::string entries;
  std::set<std::string_view> declared;
  for (const Opcode& opcode : table) {
    if (opcode.object != nullptr && declared.insert(opcode.symbol()).second) {
      text += ".extern .func " + opcode.symbol() + "(.param .b32 context, .param .b32 opcode, .param .b32 arguments);\n";
      if (opcode.object->form == Form::native) text += statics_source(*opcode.object, opcode.symbol());
    }
    entries += (opcode.object == nullptr ? "0" : opcode.symbol()) + ", ";
  }
  if (tier == Tier::relocatable) text += ".visible .global .align 4 .u32 dwell_uses[] = {" + words_text(table) + "};\n";
  return text + ".visible .const .align 8 .u64 dwell_operators[" + std::to_string(table.size() + 1) + "] = {" + entries + "0};\n";
}

std::string dispatch_source(std::span<const Opcode> table) {
  const auto is_inlined = [](const Opcode& opcode) { return opcode.object != nullptr && opcode.object->form == Form::lto; };
  const auto is_called = [](const Opcode& opcode) { return opcode.object != nullptr && opcode.object->form == Form::native; };
  std::string text = "using Entry = void(unsigned context, unsigned opcode, unsigned arguments);\n";
  // Inline an operator with several bindings once.
  std::map<std::string_view, std::string> opcodes;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (is_inlined(table[i])) opcodes[table[i].symbol()] += "case " + std::to_string(i) + ": ";
  }
  std::string cases;
  for (const auto& [symbol, labels] : opcodes) {
    text += "extern \"C\" __device__ Entry " + std::string(symbol) + ";\n";
    cases += "    " + labels + "return " + std::string(symbol) + "(context, opcode, arguments);\n";
  }
  text += "extern \"C\" __device__ const unsigned dwell_uses[] = {" + words_text(table) + "};\n";
  // Trap on an opcode that the image does not have.
  std::string others = "__trap()";
  if (std::any_of(table.begin(), table.end(), is_called)) {
    text += "extern \"C\" { extern __constant__ Entry* dwell_operators[]; }\n";
    others = "dwell_operators[opcode](context, opcode, arguments)";
  }
  return text + "extern \"C\" __device__ void dwell_dispatch(unsigned context, unsigned opcode, unsigned arguments) {\n" +
         "  switch (opcode) {\n" + cases + "    default: " + others + ";\n  }\n}\n";
}

}  // namespace dwell::jit
