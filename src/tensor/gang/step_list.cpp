#include "tensor/gang/step_list.hpp"

#include <algorithm>

#include <dwell/error.hpp>

#include "tensor/device/member.hpp"

namespace dwell::tensor::gang {

// ---- A step ------------------------------------------------------------------------------------------------------------------------

void MemberStep::use(const Range& range, const TensorView::Extent& extent, bool writes, std::int64_t period) {
  const std::uint64_t first = range.place + extent.first - range.extent.first;
  if (range.shared)
    shared_.push_back({false, extent, writes});
  else if (range.local)
    uses_.push_back({.local = true, .memory = {first, first + extent.end - extent.first}, .writes = writes, .period = period});
  else
    uses_.push_back({false, extent, writes});
}

std::string MemberStep::word(std::uint64_t word) {
  words_.push_back(static_cast<std::uint32_t>(word));
  return "at[" + std::to_string(words_.size() - 1) + "]";
}
std::string MemberStep::local_at(const std::string& type, std::uint64_t place) { return "m.local<" + type + ">(" + word(place) + ")"; }
std::string MemberStep::global_at(const std::string& type, std::uint64_t address) {
  const std::string low = word(address);
  return "m.global<" + type + ">(" + low + ", " + word(address >> 32U) + ")";
}

std::string MemberStep::place_of(const View& view, const Range& range, const Owned& owned) {
  // The step's element i of the tensor is element i of a period of the range, or of some of them.
  const auto first = static_cast<std::int64_t>((view.address - range.extent.first) / sizeof(float));
  const bool by_thread = owned.period != 0 && range.local && range.period == owned.period && view.type == ElementType::f32 &&
                         view.sizes.size() == 1 && view.strides[0] == 1 && first % owned.period == 0;
  use(range, view.extent(), view.written, by_thread ? owned.period : 0);
  const std::string type = (view.written ? "" : "const ") + type_name(view.type);
  return range.local ? local_at(type, range.place + view.address - range.extent.first) : global_at(type, view.address);
}

// ---- The list ----------------------------------------------------------------------------------------------------------------------

bool StepList::conflict(const std::vector<Use>& uses, const std::vector<Use>& others) {
  return std::ranges::any_of(uses, [&](const Use& use) {
    return std::ranges::any_of(others, [&](const Use& other) {
      if (other.local != use.local || !(other.writes || use.writes) || !other.memory.overlaps(use.memory)) return false;
      const auto period = static_cast<std::uint64_t>(use.period) * sizeof(float);
      const bool by_thread = period != 0 && other.period == use.period && (use.memory.first - other.memory.first) % period == 0;
      return !by_thread;
    });
  });
}

void StepList::add(const MemberStep& step, const FormText& form, const std::string& remark, bool sync) {
  if (conflict(step.shared_, shared_)) barrier();
  if (conflict(step.uses_, since_)) sync_last();
  shared_.insert(shared_.end(), step.shared_.begin(), step.shared_.end());  // the threads have not met behind this step
  const auto [known, made] = numbers_.emplace(form, numbers_.size());
  if (made) {
    forms.push_back(form);
    remarks.push_back(remark);
  }
  const std::size_t number = known->second + 1;
  const std::size_t length = step.words_.size() + 1;
  if (number >= std::size_t{1} << device::kStepFormBits || length > device::kStepWords)
    throw Error(errc::unsupported, "the program does not fit a gang: it has too many kinds of steps");
  last_ = words.size();
  words.push_back(static_cast<std::uint32_t>(number | length << device::kStepFormBits));
  words.insert(words.end(), step.words_.begin(), step.words_.end());
  since_.insert(since_.end(), step.uses_.begin(), step.uses_.end());
  if (sync) sync_last();
}

void StepList::barrier() {
  shared_.clear();
  add({}, {.body = "  m.barrier<kMembers, kThreads>();\n"}, "a barrier of all members");
  since_.clear();
  met_ = true;
}

void StepList::end_list() {
  words.push_back(0);
  begins.push_back(static_cast<std::uint32_t>(words.size()));
}

void StepList::end_repeated() {
  if (shared_.empty())
    sync_last();
  else
    barrier();
  end_list();
}

void StepList::sync_last() {
  words[last_] |= device::kStepSync;
  since_.clear();
  for (Use& use : shared_) use.synced = true;
}

void StepList::tell(const MemberStep& last) {
  // A thread has put its words behind its own reads of that step, and all threads are behind those that are synced.
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    Use& use = shared_[i];
    use.told = use.told || use.synced || i + last.shared_.size() >= shared_.size();
  }
}

void StepList::heard() {
  std::erase_if(shared_, [](const Use& use) { return !use.writes && use.told; });
  met_ = true;
}

}  // namespace dwell::tensor::gang
