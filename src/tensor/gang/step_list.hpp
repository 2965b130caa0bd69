// The list of a program's steps, while it is written: forms, words, and the barriers between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <dwell/tensor.hpp>

#include "tensor/gang/forms.hpp"
#include "tensor/gang/ranges.hpp"

namespace dwell::tensor::gang {

// Memory that a step uses: a place in the member's memory, or an address elsewhere.
struct Use {
  bool local = false;
  TensorView::Extent memory;
  bool writes = false;
  std::int64_t period = 0;  // of elements that one thread has in all such uses of the range; 0: any thread may have any of them
  bool synced = false;      // of what members share: the member's threads have met behind it
  bool told = false;        // and words that others wait for have been put behind that
};

// A step that is being written.
class MemberStep {
 public:
  // Notes that it uses memory of a range.
  void use(const Range& range, const TensorView::Extent& extent, bool writes, std::int64_t period = 0);
  // Notes that it reads what a member has put for all of them, which it replaces in the next run.
  void use_arrivals() { shared_.push_back({false, {0, 1}, false}); }
  // Notes that it uses a place in the member's memory, as scratch memory.
  void use_local(std::uint64_t place, std::uint64_t bytes) { uses_.push_back({true, {place, place + bytes}, true}); }
  // Add words to the step, and return the text that finds what they name.
  std::string local_at(const std::string& type, std::uint64_t place);
  std::string global_at(const std::string& type, std::uint64_t address);
  std::string word(std::uint64_t word);
  // A tensor of the range, which the step uses. `owned`: of a step on elements that a member owns.
  std::string place_of(const View& view, const Range& range, const Owned& owned = {});

 private:
  friend class StepList;

  std::vector<std::uint32_t> words_;
  std::vector<Use> uses_;    // of the member's memory, and of what no member shares
  std::vector<Use> shared_;  // of what members share
};

class StepList {
 public:
  // Adds a step of a form. A barrier comes before it where it uses what a step since the last one writes, or the other way round: of the
  // member's threads, or of all members for what they share. `sync`: one comes behind it too. Throws errc::unsupported for too many forms.
  void add(const MemberStep& step, const FormText& form, const std::string& remark, bool sync = false);
  // Adds a barrier of all members.
  void barrier();
  // The last step has put words for the others. Behind these they know that what the member has read so far may be replaced.
  void tell(const MemberStep& last);
  // The last step has got words of all members.
  void heard();
  // Ends a list of steps.
  void end_list();
  // Ends a list that runs many times, of one step at least. A barrier comes behind it where the next run may use what this one has used.
  void end_repeated();
  // Returns whether each member has waited for all others.
  bool has_met() const { return met_; }

  std::vector<std::uint32_t> words = {};
  std::vector<std::uint32_t> begins = {0};  // of the lists
  std::vector<FormText> forms = {};
  std::vector<std::string> remarks = {};

 private:
  static bool conflict(const std::vector<Use>& uses, const std::vector<Use>& others);
  void sync_last();

  std::map<FormText, std::size_t> numbers_;
  std::size_t last_ = 0;     // head of the last step
  std::vector<Use> since_;   // the last barrier of the member's threads
  std::vector<Use> shared_;  // since the last one of all members
  bool met_ = false;
};

}  // namespace dwell::tensor::gang
