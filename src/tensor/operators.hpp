// dwell's own operators, which run a batch's operations.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <dwell/operator.hpp>
#include <dwell/runtime.hpp>

namespace dwell::tensor {

// The source of an operator, or of instances of one. Identified by the object's address.
struct OwnSource {
  const char* name;
  const char* text;
  std::vector<std::string> instances = {};  // none: it is no template
};

// Register limit per thread on CUDA: leaves room for six workers a multiprocessor, as does the loop.
inline constexpr unsigned kRegisters = 64;

extern const OwnSource kElementwise;
// Its instances: a program that travels in the ring, and a longer one.
inline constexpr std::size_t kInRing = 0;
inline constexpr std::size_t kBesideRing = 1;

// Options for operators that run programs: without contraction, so that interpreted and compiled ones give the same bits.
CompileOptions program_options(const Runtime& runtime);

// A batch's handles of a runtime's operators. An operator is compiled when a batch first requests it.
class Operators {
 public:
  explicit Operators(Runtime& runtime);

  // Returns the operator; defines it unless a batch of the runtime has, and waits until it is ready. The reference stays valid. Throws as
  // Runtime::define.
  const Operator<>& get(const OwnSource& source, std::size_t instance = 0);
  // Returns whether a group has several threads.
  bool on_cuda() const noexcept { return on_cuda_; }

 private:
  Runtime* runtime_;
  bool on_cuda_;
  std::vector<std::pair<const OwnSource*, std::vector<Operator<>>>> known_;  // its instances; a handful
};

}  // namespace dwell::tensor
