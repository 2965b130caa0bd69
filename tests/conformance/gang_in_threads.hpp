// A program of a gang whose members are threads of the host: what many members do, where there is no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <dwell/gang_program.hpp>
#include <dwell/runtime.hpp>

#include "tensor/device/resident_member.hpp"
#include "tensor/gang/noted.hpp"
#include "tensor/gang/plan.hpp"
#include "tensor/gang/source.hpp"

namespace dwell::test {

// The limits of an H200. `threads` of a member: 0 for as many as the plan finds best.
inline tensor::gang::Limits limits_of_gpu(std::uint32_t members, std::uint32_t threads = 0) {
  return {.members = members, .most_members = 132, .local_bytes = std::uint64_t{227} << 10U, .threads = threads, .on_cuda = true};
}
inline tensor::gang::Limits limits_of_gpu(const GangSettings& settings, std::uint32_t threads = 0) {
  tensor::gang::Limits limits = limits_of_gpu(settings.members, threads);
  limits.repeats = settings.repeats;
  limits.slices = settings.slices;
  return limits;
}

class GangInThreads {
 public:
  // The members of the plan have one thread. Throws as GangProgram.
  GangInThreads(Runtime& runtime, tensor::gang::Plan plan, std::uint32_t repeats = 1) : plan_(std::move(plan)), repeats_(repeats) {
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
    address_ = address;
    words_.resize(2 * std::size_t{plan_.exchanged});
    numbers_.resize(device::kNumbersLine + std::size_t{plan_.members} * 2 * device::kNumbersOfMember);
    // Memory of a GPU's members has no particular contents either.
    local_.assign(plan_.members, std::vector<Pack>(plan_.local_bytes / sizeof(Pack) + 1, Pack{kGarbage, kGarbage}));
  }

  // Runs the program once; returns when all members have. `step`: for a plan whose runs the host calls.
  void run(const device::StepMemory* step = nullptr) {
    std::vector<std::thread> members;
    for (std::uint32_t rank = 0; rank < plan_.members; ++rank)
      members.emplace_back([this, rank, step] {
        auto* const local = reinterpret_cast<std::uint8_t*>(local_[rank].data());
        if (step != nullptr)
          reinterpret_cast<tensor::gang::FunctionOfCalled>(address_)(rank, plan_.list.data(), local, words_.data(), numbers_.data(), step);
        else
          reinterpret_cast<tensor::gang::FunctionOfMember>(address_)(rank, plan_.list.data(), local, words_.data(), numbers_.data(),
                                                                     repeats_);
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
  std::uint64_t address_ = 0;  // of the function
  std::vector<u64> words_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::vector<Pack>> local_;
};

}  // namespace dwell::test
