// A program of a gang whose members are threads of the host: what many members do, where there is no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <dwell/gang_program.hpp>
#include <dwell/runtime.hpp>

#include "tensor/device/member.hpp"
#include "tensor/gang/noted.hpp"
#include "tensor/gang/plan.hpp"
#include "tensor/gang/source.hpp"

namespace dwell::test {

// Plans as for a GPU, but for members of one thread.
class GangInThreads {
 public:
  // Throws as GangProgram.
  GangInThreads(Runtime& runtime, const OperationList& operations, const std::function<bool(const TensorView::Extent&)>& needed,
                const GangSettings& settings)
      : plan_(tensor::gang::plan_of(tensor::noted_in(operations), needed,
                                    {.members = settings.members,
                                     .most_members = 132,
                                     .local_bytes = std::uint64_t{227} << 10U,
                                     .threads = 1,
                                     .on_cuda = true,
                                     .repeats = settings.repeats,
                                     .slices = settings.slices})),
        repeats_(settings.repeats) {
    tensor::gang::Source source = tensor::gang::source_of(plan_, tensor::gang::Runner::threads);
    text_ = source.text;
    Definition how;
    CompileOptions options = runtime.options().compile;
    options.contract = false;
    how.options = options;
    op_ = runtime.define_async(source.name, Source(std::move(source.text), "dwell/" + source.name + ".op"), how).get();
    const Buffer<std::uint64_t> place = runtime.allocate<std::uint64_t>(1);
    runtime.submit(op_, place).wait();
    std::uint64_t address = 0;
    place.read(std::span(&address, 1));
    function_ = reinterpret_cast<tensor::gang::FunctionOfMember>(address);
    words_.resize(2 * std::size_t{plan_.exchanged});
    numbers_.resize(device::kNumbersLine + std::size_t{plan_.members} * device::kNumbersOfMember);
    // Memory of a GPU's members has no particular contents either.
    local_.assign(plan_.members, std::vector<Pack>(plan_.local_bytes / sizeof(Pack) + 1, Pack{kGarbage, kGarbage}));
  }

  // Runs the program once; returns when all members have.
  void run() {
    std::vector<std::thread> members;
    for (std::uint32_t rank = 0; rank < plan_.members; ++rank)
      members.emplace_back([this, rank] {
        function_(rank, plan_.list.data(), reinterpret_cast<std::uint8_t*>(local_[rank].data()), words_.data(), numbers_.data(), repeats_);
      });
    for (std::thread& member : members) member.join();
  }

  const tensor::gang::Plan& plan() const { return plan_; }
  const std::string& source() const { return text_; }

 private:
  struct alignas(device::kMemberAlignment) Pack {
    std::uint64_t a;
    std::uint64_t b;
  };
  static constexpr std::uint64_t kGarbage = 0xFFC0DEADFFC0DEADU;  // two NaNs

  tensor::gang::Plan plan_;
  std::uint32_t repeats_;
  std::string text_;
  Operator<> op_;
  tensor::gang::FunctionOfMember function_ = nullptr;
  std::vector<u64> words_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::vector<Pack>> local_;
};

}  // namespace dwell::test
