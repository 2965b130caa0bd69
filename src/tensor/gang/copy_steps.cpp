#include "tensor/gang/copy_steps.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

#include "tensor/device/product.hpp"

namespace dwell::tensor::gang {

namespace {

using device::ProductWords;
using Extent = TensorView::Extent;

// `places`: both of them and what else their alignment depends on, or'ed.
FormText copy_text(const std::string& to, const std::string& from, std::uint64_t bytes, std::uint64_t places,
                   const std::string& function = "begin_copy") {
  const std::uint64_t alignment = std::uint64_t{1} << std::min(std::countr_zero(places), 4);
  return {"  static constexpr u32 bytes = " + std::to_string(bytes) + ";\n  static constexpr u32 alignment = " + std::to_string(alignment) +
              ";\n",
          "  " + function + "<Form, kThreads>(m, " + to + ", " + from + ");\n"};
}

// The place in the slice of a run of what lies at this address of the memory that stands for it.
std::string slice_at(MemberStep& step, const std::string& type, const GangSlices& slices, std::uint64_t address, const std::string& turn) {
  const std::string first = step.global_at("char", slices.first + address - slices.memory.first);
  return "reinterpret_cast<" + type + "*>(" + first + " + static_cast<i64>(" + turn + ") * " + std::to_string(slices.stride) + ")";
}

}  // namespace

void CopySteps::begin() {
  bool any = false;
  for (const Range& range : draft_.ranges) {
    if (!range.local || !range.read_first || range.input != nullptr) continue;
    MemberStep step;
    const std::string to = step.local_at("u8", range.place);
    const std::string from = step.global_at("const u8", range.extent.first);
    steps_.add(step, copy_text(to, from, range.bytes(), range.place | range.extent.first), "copies a tensor to the member's memory");
    any = true;
  }
  for (const Kept& weights : draft_.kept) {
    MemberStep step;
    const std::string to = step.local_at("float", weights.place);
    const std::string from = step.global_at("const float", weights.of->tensors[ProductWords::b].address);
    steps_.add(step, weights_text(*weights.of, to, from, draft_.threads, weights.outputs, draft_.owned_by(*weights.of)),
               "copies weights that the member keeps");
    any = true;
  }
  for (const Range& range : draft_.ranges) {
    if (!is_fetched_ahead(range)) continue;
    copy_slice(range, "m.turn()", "");
    any = true;
  }
  if (any) steps_.add({}, {.body = "  end_copies();\n"}, "waits for the copies", true);
}

bool CopySteps::is_fetched_ahead(const Range& range) const {
  return range.input != nullptr && range.local && !range.written() && range.outputs.empty() && !draft_.limits.on_call;
}

void CopySteps::copy_slice(const Range& range, const std::string& turn, const std::string& condition) {
  MemberStep step;
  step.use(range, range.extent, true);
  const std::string to = step.local_at("u8", range.place);
  const std::string from = slice_at(step, "const u8", *range.input, range.extent.first, turn);
  const std::uint64_t first = range.input->first + range.extent.first - range.input->memory.first;
  FormText form = copy_text(to, from, range.bytes(), range.place | first | static_cast<std::uint64_t>(range.input->stride));
  form.body.insert(0, condition);
  steps_.add(step, form, "copies a slice to the member's memory");
}

void CopySteps::fetch_next(const std::function<bool(const Range&)>& of) {
  for (const Range& range : draft_.ranges) {
    if (!is_fetched_ahead(range) || !of(range)) continue;
    copy_slice(range, "(m.turn() + 1)", "if (!m.is_last_turn()) ");
    fetches_ = true;
  }
}

void CopySteps::end_fetches() {
  if (fetches_) steps_.add({}, {.body = "  end_copies();\n"}, "waits for the copies");
}

void CopySteps::begin_run() {
  if (draft_.limits.on_call) return await_call();
  bool any = false;
  for (const Range& range : draft_.ranges) {
    if (range.input == nullptr || !range.local || is_fetched_ahead(range)) continue;
    copy_slice(range, "m.turn()", "");
    any = true;
  }
  if (any) steps_.add({}, {.body = "  end_copies();\n"}, "waits for the slices", true);
}

void CopySteps::end_run() {
  if (draft_.limits.on_call) return answer();
  for (const Range& range : draft_.ranges)
    for (const GangSlices* const output : range.outputs)
      copy_out(range, output->memory, output->first | static_cast<std::uint64_t>(output->stride),
               [&](MemberStep& step, const std::string& type) { return slice_at(step, type, *output, output->memory.first, "m.turn()"); });
}

std::uint64_t CopySteps::call_word(const GangSlices& of, std::uint64_t address) const {
  std::uint64_t bytes = 0;
  for (const GangSlices* slices = draft_.limits.slices.data(); slices != &of; ++slices)
    if (slices->output == of.output) bytes += slices->memory.end - slices->memory.first;
  return (bytes + address - of.memory.first) / sizeof(std::uint32_t);
}

void CopySteps::await_call() {
  MemberStep step;
  std::string place;
  std::string word;
  std::uint64_t count = 0;
  for (const Range& range : draft_.ranges) {
    if (range.input == nullptr || !range.local) continue;
    step.use(range, range.extent, true);
    const std::string i = count == 0 ? "i" : "(i - " + std::to_string(count) + ")";
    count += range.bytes() / sizeof(std::uint32_t);
    const std::string piece = "    if (i < " + std::to_string(count) + ") return ";
    place += piece + step.word(range.place) + " + " + i + " * 4;\n";
    word += piece + step.word(call_word(*range.input, range.extent.first)) + " + " + i + ";\n";
  }
  if (draft_.members > 1) step.use_arrivals();
  const std::string begin = "(const u32* at, u32 i) {\n    (void)at;\n";
  steps_.add(step,
             {"  static constexpr u32 count = " + std::to_string(count) + ";\n  static DWELL_DEVICE u32 place" + begin + place +
                  "    return 0;\n  }\n  static DWELL_DEVICE u32 word" + begin + word + "    return 0;\n  }\n",
              "  m.await_call<Form, kThreads, kMembers>(at);\n"},
             "waits for a call and its inputs", true);
  arrived_ = static_cast<std::uint32_t>(count);
}

void CopySteps::answer() {
  for (const Range& range : draft_.ranges) {
    for (const GangSlices* const output : range.outputs) {
      MemberStep step;
      step.use(range, output->memory, false);
      const std::string from = step.local_at("const u32", range.place + output->memory.first - range.extent.first);
      const std::uint64_t words = (output->memory.end - output->memory.first) / sizeof(std::uint32_t);
      const std::string first = step.word(call_word(*output, output->memory.first));
      if (range.owned) {
        const Owned owned{.period = range.period, .each = range.period / draft_.members};
        steps_.add(step,
                   {.body = "  for (int i = static_cast<int>(m.thread()); i < " + owned.count(static_cast<std::int64_t>(words)) +
                            "; i += kThreads) {\n    const int e = " + owned.element("i") + ";\n    m.answer(" + first + " + e, " + from +
                            "[e]);\n  }\n"},
                   "answers with what a member owns");
        continue;
      }
      step.word(words);
      step.word(writer_++ % draft_.members);
      steps_.add(step, {.body = "  if (m.rank() == at[3]) m.answer_all<kThreads>(" + first + ", " + from + ", at[2]);\n"},
                 "answers with a result, by one member");
    }
  }
}

void CopySteps::end() {
  // No member stores a result before all have their copies of what lay there.
  if (draft_.members > 1 && !steps_.has_met()) steps_.barrier();
  for (const Range& range : draft_.ranges)
    if (range.local && range.out && range.input == nullptr)
      copy_out(range, range.extent, range.extent.first,
               [&](MemberStep& step, const std::string& type) { return step.global_at(type, range.extent.first); });
}

void CopySteps::copy_out(const Range& range, const Extent& memory, std::uint64_t outside,
                         const std::function<std::string(MemberStep&, const std::string&)>& to) {
  MemberStep step;
  step.use(range, memory, false);
  const std::uint64_t place = range.place + memory.first - range.extent.first;
  if (range.owned) {
    const std::string from = step.local_at("const float", place);
    const std::string target = to(step, "float");
    const Owned owned{.period = range.period, .each = range.period / draft_.members};
    const std::string count = owned.count(static_cast<std::int64_t>(range.bytes() / sizeof(float)));
    steps_.add(step,
               {.body = "  for (int i = static_cast<int>(m.thread()); i < " + count + "; i += kThreads) {\n    const int e = " +
                        owned.element("i") + ";\n    " + target + "[e] = " + from + "[e];\n  }\n"},
               "copies out what a member owns");
    return;
  }
  const std::string from = step.local_at("const u8", place);
  const std::string target = to(step, "u8");
  step.word(writer_++ % draft_.members);
  FormText form = copy_text(target, from, memory.end - memory.first, place | outside, "copy_out");
  form.body.insert(0, "  if (m.rank() == at[3])");
  steps_.add(step, form, "copies a result out, by one member");
}

}  // namespace dwell::tensor::gang
