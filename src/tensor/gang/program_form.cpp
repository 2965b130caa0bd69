// The text of elementwise programs.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/device/program.hpp"
#include "tensor/gang/forms.hpp"
#include "tensor/promotion.hpp"

namespace dwell::tensor::gang {

namespace {

using device::Instruction;
using device::NumberClass;
using device::OperandKind;
using device::ProgramWords;
using device::Step;

std::string number_name(NumberClass number) {
  switch (number) {
    case NumberClass::f64: return "double";
    case NumberClass::i64: return "i64";
    case NumberClass::f32: break;
  }
  return "float";
}

std::string hexadecimal(std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[value & 0xFU]);
    value >>= 4U;
  } while (value != 0);
  return "0x" + text;
}

// The offset of the element with the indices i0, i1 and so on, or with the place e.
std::string offset_text(const View& view) {
  std::string text;
  for (std::size_t dim = 0; dim < view.sizes.size(); ++dim) {
    if (view.strides[dim] == 0 || view.sizes[dim] == 1) continue;
    if (!text.empty()) text += " + ";
    text += view.sizes.size() == 1 ? "e" : "i" + std::to_string(dim);
    if (view.strides[dim] != 1) text += " * " + std::to_string(view.strides[dim]);
  }
  return text.empty() ? "0" : text;
}

// Returns whether a CPU's compiler may do an instruction for several elements at once: it calls no function of the language's library.
bool is_vectorized(Instruction in) {
  if (in.code() < Instruction::kFirstOp) return true;
  const auto op = static_cast<TensorOp>(in.code() - Instruction::kFirstOp);
  if (op == TensorOp::fmax || op == TensorOp::fmin) return false;
  switch (op) {
#define DWELL_CASE(name, ...) case TensorOp::name:
    DWELL_LIGHT_OPS(DWELL_CASE)
    DWELL_COMPARISONS(DWELL_CASE)
    DWELL_LOGICAL_OPS(DWELL_CASE)
    DWELL_LIGHT_FLOAT_OPS(DWELL_CASE)
    DWELL_BITWISE_OPS(DWELL_CASE)
#undef DWELL_CASE
    case TensorOp::where:
    case TensorOp::reciprocal:
    case TensorOp::sqrt:
    case TensorOp::rsqrt:
    case TensorOp::lerp:
    case TensorOp::leaky_relu:
    case TensorOp::hardsigmoid:
    case TensorOp::hardswish: return true;
    default: return false;
  }
}

class Writer {
 public:
  Writer(const Operation& operation, const Places& places, By by, std::uint32_t threads, const Owned& owned, const HandedOn& handed_on)
      : program_(operation.words.data()),
        operation_(operation),
        places_(places),
        by_(by),
        threads_(threads),
        owned_(owned),
        handed_on_(handed_on) {}

  // For many threads, which take elements in turn.
  std::string text() {
    const View& first = operation_.tensors.front();
    name_tensors();
    const bool each = by_ == By::each;
    if (by_ == By::own) {
      // A thread has the same elements of all periods in each such step: it waits for no other.
      line(in_turn("i", "static_cast<int>(m.thread())", owned_.each, "kThreads"));
      line("  for (int p = 0; p < " + std::to_string(program_.elements() / owned_.period) + "; ++p) {");
      line("    const int e = p * " + std::to_string(owned_.period) + " + static_cast<int>(m.rank()) * " + std::to_string(owned_.each) +
           " + i;");
    } else {
      const std::string begin = each ? "static_cast<int>(m.thread())" : "static_cast<int>(m.rank() * kThreads + m.thread())";
      line(in_turn("e", begin, program_.elements(), each ? "kThreads" : "kMembers * kThreads") + " {");
    }
    if (first.sizes.size() > 1) {
      std::int64_t below = 1;
      for (std::size_t dim = first.sizes.size(); dim-- != 0;) {
        if (first.sizes[dim] != 1) {
          std::string index = below == 1 ? "e" : "e / " + std::to_string(below);
          if (below * first.sizes[dim] != program_.elements()) index += " % " + std::to_string(first.sizes[dim]);
          line("    const int i" + std::to_string(dim) + " = " + index + ";");
        }
        below *= first.sizes[dim];
      }
    }
    line("    " + slot() + " s{};");
    for (const std::uint32_t kept : kept_slots()) line("    " + slot() + " k" + std::to_string(kept) + "{};");
    for (std::uint32_t i = 0; i < program_.instructions(); ++i) step(Instruction(program_.code()[i]));
    // Read back: a program may store to a tensor several times.
    for (const auto& [tensor, word] : handed_on_) line("    m.put(" + word + " + e, " + element(static_cast<std::uint32_t>(tensor)) + ");");
    line("  }");
    return text_;
  }

  // For one thread: loops over the last dimension that the compiler vectorizes. A call of a function would keep a loop from that, so an
  // instruction that calls one has a loop of its own, and slots are arrays.
  std::string text_of_one_thread() {
    const std::vector<std::int64_t>& sizes = operation_.tensors.front().sizes;
    const std::int64_t last = sizes.size() > 1 ? sizes.back() : static_cast<std::int64_t>(program_.elements());
    name_tensors();
    for (std::size_t dim = 0; dim + 1 < sizes.size(); ++dim) {
      const std::string i = "i" + std::to_string(dim);
      line("  for (int " + i + " = 0; " + i + " < " + std::to_string(sizes[dim]) + "; ++" + i + ")");
    }
    bool all_vectorized = true;
    for (std::uint32_t i = 0; i < program_.instructions(); ++i) all_vectorized &= is_vectorized(Instruction(program_.code()[i]));
    if (all_vectorized) {
      begin_loop(sizes, std::to_string(last), "j", false);
      for (std::uint32_t i = 0; i < program_.instructions(); ++i) step(Instruction(program_.code()[i]));
      line("    }");
      return text_;
    }
    const std::int64_t at_once = std::min(last, kAtOnce);
    line("  for (int first = 0; first < " + std::to_string(last) + "; first += " + std::to_string(at_once) + ") {");
    const std::string rest = std::to_string(last) + " - first";
    const std::string most = std::to_string(at_once);
    line("    const int count = " + (last % at_once == 0 ? most : rest + " < " + most + " ? " + rest + " : " + most) + ";");
    line("    " + slot() + " slots[" + most + "] = {};");
    for (const std::uint32_t kept : kept_slots()) line("    " + slot() + " kept_" + std::to_string(kept) + "[" + most + "] = {};");
    bool open = false;
    for (std::uint32_t i = 0; i < program_.instructions(); ++i) {
      const Instruction in(program_.code()[i]);
      const bool alone = !is_vectorized(in);
      if (open && alone) line("    }");
      if (!open || alone) begin_loop(sizes, "count", "first + j", true);
      step(in);
      if (alone) line("    }");
      open = !alone;
    }
    if (open) line("    }");
    line("  }");
    return text_;
  }

 private:
  static constexpr std::int64_t kAtOnce = 64;  // elements, whose slots stay in the processor's first cache

  // The head of a loop in steps, or of a condition where it runs once at most: compilers would unroll that, into code that is fetched and
  // never runs.
  std::string in_turn(const std::string& i, const std::string& first, std::int64_t end, const std::string& step) const {
    const std::string begins = "int " + i + " = " + first + "; " + i + " < " + std::to_string(end);
    if (by_ != By::shared && end <= threads_) return "  if (const " + begins + ")";
    return "  for (" + begins + "; " + i + " += " + step + ")";
  }
  void name_tensors() {
    for (std::size_t i = 0; i < operation_.tensors.size(); ++i) line("  auto* const t" + std::to_string(i) + " = " + places_[i] + ";");
  }
  // Temporaries, in the order in which they are set.
  std::vector<std::uint32_t> kept_slots() const {
    std::vector<std::uint32_t> slots;
    for (std::uint32_t i = 0; i < program_.instructions(); ++i) {
      const Instruction in(program_.code()[i]);
      if (in.code() == static_cast<std::uint32_t>(Step::keep) && std::ranges::find(slots, in.operand()) == slots.end())
        slots.push_back(in.operand());
    }
    return slots;
  }
  std::string slot() const { return program_.wide() ? "u64" : "float"; }
  // Begins a loop over so many elements of the last dimension, with the names that steps use. `arrays`: slots live from loop to loop.
  void begin_loop(const std::vector<std::int64_t>& sizes, const std::string& count, const std::string& last, bool arrays) {
    line("    DWELL_INDEPENDENT_STEPS");
    line("    for (int j = 0; j < " + count + "; ++j) {");
    std::string element = last;
    if (sizes.size() > 1) {
      const std::string name = "i" + std::to_string(sizes.size() - 1);
      line("      const int " + name + " = " + last + ";");
      element = "i0";
      for (std::size_t dim = 1; dim < sizes.size(); ++dim)
        element = "(" + element + ") * " + std::to_string(sizes[dim]) + " + i" + std::to_string(dim);
    }
    line("      const int e = " + element + ";");
    line("      (void)e;");
    line(arrays ? "      auto& s = slots[j];" : "      " + slot() + " s{};");
    for (const std::uint32_t kept : kept_slots()) {
      const std::string number = std::to_string(kept);
      line(arrays ? "      auto& k" + number + " = kept_" + number + "[j];" : "      " + slot() + " k" + number + "{};");
    }
  }

  void line(const std::string& text) { text_ += text + "\n"; }
  std::string element(std::uint32_t tensor) const {
    return "t" + std::to_string(tensor) + "[" + offset_text(operation_.tensors[tensor]) + "]";
  }
  std::string constant(std::uint32_t index) const {
    const std::uint32_t* const words = program_.constant(index);
    if (!program_.wide()) return "bits_as<float>(" + hexadecimal(words[0]) + "U)";
    return "u64{" + hexadecimal(words[0] | static_cast<std::uint64_t>(words[1]) << 32U) + "U}";
  }
  // An operand as a number of class C.
  std::string number(OperandKind kind, std::uint32_t index, const std::string& c) const {
    switch (kind) {
      case OperandKind::tensor: return "number_of<" + c + ">(" + element(index) + ")";
      case OperandKind::temporary: return "number_in<" + c + ">(k" + std::to_string(index) + ")";
      case OperandKind::constant: return "number_in<" + c + ">(" + constant(index) + ")";
      case OperandKind::none: break;
    }
    return c + "()";
  }
  void put(const std::string& number) { line("    put_number(&s, " + number + ");"); }
  void round(Instruction in) {
    if (device::is_rounded(in.number(), in.result()))
      line("    round_slot<" + type_name(in.result()) + ", " + number_name(in.number()) + ">(&s);");
  }

  void step(Instruction in) {
    const std::string c = number_name(in.number());
    switch (in.code()) {
      case static_cast<std::uint32_t>(Step::load): put(number(in.kind(), in.operand(), c)); break;
      case static_cast<std::uint32_t>(Step::keep): return line("    k" + std::to_string(in.operand()) + " = s;");
      case static_cast<std::uint32_t>(Step::store):
        return line("    " + element(in.operand()) + " = Element<" + type_name(operation_.tensors[in.operand()].type) + ">::of(number_in<" +
                    c + ">(s));");
      case static_cast<std::uint32_t>(Step::cast): break;
      case static_cast<std::uint32_t>(Step::index): put("static_cast<" + c + ">(e)"); break;
      default: compute(in, c); break;
    }
    round(in);
  }

  void compute(Instruction in, const std::string& c) {
    const auto op = static_cast<TensorOp>(in.code() - Instruction::kFirstOp);
    const OperandKind third = !in.has_third() ? OperandKind::none : in.third_is_constant() ? OperandKind::constant : OperandKind::temporary;
    std::string a = "number_in<" + c + ">(s)";
    std::string b = number(in.kind(), in.operand(), c);
    if (in.swapped()) a.swap(b);
    // A condition is any slot but 0; the other two keep their bits.
    if (op == TensorOp::where) {
      const std::string condition = third == OperandKind::constant ? constant(in.third()) : "k" + std::to_string(in.third());
      return put(condition + " != 0 ? " + a + " : " + b);
    }
    std::string f = "Operation<TensorOp::";
    f.append(name_of(op)).append(">()(" + a + ", " + b + ", " + number(third, in.third(), c) + ")");
    put(f);
  }

  const ProgramWords program_;
  const Operation& operation_;
  const Places& places_;
  const By by_;
  const std::int64_t threads_;
  const Owned& owned_;
  const HandedOn& handed_on_;
  std::string text_;
};

}  // namespace

std::string type_name(ElementType type) {
  switch (type) {
    case ElementType::f16: return "half";
    case ElementType::bf16: return "bfloat16";
    case ElementType::f64: return "double";
    case ElementType::i8: return "i8";
    case ElementType::i16: return "i16";
    case ElementType::i32: return "i32";
    case ElementType::i64: return "i64";
    case ElementType::u8: return "u8";
    case ElementType::boolean: return "Truth";
    default: return "float";
  }
}

FormText program_text(const Operation& operation, const Places& places, By by, std::uint32_t threads, const Owned& owned,
                      const HandedOn& handed_on) {
  Writer writer(operation, places, by, threads, owned, handed_on);
  return {.body = threads == 1 && by == By::each ? writer.text_of_one_thread() : writer.text()};
}

std::string Owned::count(std::int64_t elements) const { return std::to_string(elements / period * each); }
std::string Owned::element(const std::string& i) const {
  const std::string width = std::to_string(each);
  const std::string rank = "static_cast<int>(m.rank()) * " + width;
  return i + " / " + width + " * " + std::to_string(period) + " + " + rank + " + " + i + " % " + width;
}

}  // namespace dwell::tensor::gang
