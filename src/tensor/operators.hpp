// dwell's own operators, which run what a batch collects.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <dwell/operator.hpp>
#include <dwell/runtime.hpp>

namespace dwell::tensor {

// The source of an operator, or of instances of one. There is one object of each, whose address stands for it.
struct OwnSource {
  const char* name;
  const char* text;
  std::vector<std::string> instances = {};  // none: it is no template
};

// Registers a thread that one of them takes on CUDA, at most: as many as leave room for six workers a multiprocessor, as the loop does.
inline constexpr unsigned kRegisters = 64;

extern const OwnSource kElementwise;
// Its instances: a program that travels in the ring, and a longer one.
inline constexpr std::size_t kInRing = 0;
inline constexpr std::size_t kBesideRing = 1;

// How operators are compiled that run programs: without contraction, so that interpreted and compiled ones give the same bits.
CompileOptions program_options(const Runtime& runtime);

// Those of a runtime, as one batch knows them. An operator is compiled when some batch first asks for it.
class Operators {
 public:
  explicit Operators(Runtime& runtime);

  // Defines the source where no batch of the runtime has before, and waits until it can be used; stays where it is. Throws as
  // Runtime::define.
  const Operator<>& get(const OwnSource& source, std::size_t instance = 0);
  // Whether a group has several threads.
  bool on_cuda() const noexcept { return on_cuda_; }

 private:
  Runtime* runtime_;
  bool on_cuda_;
  std::vector<std::pair<const OwnSource*, std::vector<Operator<>>>> known_;  // its instances; a handful
};

}  // namespace dwell::tensor
