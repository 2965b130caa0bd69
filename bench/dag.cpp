#include "bench/dag.hpp"

#include <algorithm>
#include <bit>

#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

// Returns the columns of the previous row that the task in `column` of row `step` > 0 waits for.
std::vector<std::size_t> columns_before(Pattern pattern, std::size_t column, std::size_t width, std::size_t step, Random& random) {
  std::vector<std::size_t> columns;
  const auto add = [&](std::size_t base, std::size_t plus, std::size_t minus) {
    if (base + plus >= minus && base + plus - minus < width) columns.push_back(base + plus - minus);
  };
  switch (pattern) {
    case Pattern::trivial: break;
    case Pattern::stencil_1d:
      add(column, 0, 1);
      add(column, 0, 0);
      add(column, 1, 0);
      break;
    case Pattern::fft: {
      const std::size_t apart = std::size_t{1} << ((step - 1) % static_cast<std::size_t>(std::bit_width(width) - 1));
      add(column, 0, apart);
      add(column, 0, 0);
      add(column, apart, 0);
      break;
    }
    case Pattern::tree: add(column / 2, 0, 0); break;
    case Pattern::random:
      for (std::size_t i = 0; i < Dag::kMostBefore; ++i) {
        if (random.below(2) == 0) add(column, i, 1);
      }
      break;
  }
  return columns;
}

}  // namespace

Dag chain_of(std::size_t nodes) {
  Dag dag;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const std::uint32_t last = node - 1;
    dag.add(std::span(&last, node == 0 ? 0U : 1U));
  }
  return dag;
}

Dag independent(std::size_t nodes) {
  Dag dag;
  for (std::size_t node = 0; node < nodes; ++node) dag.add({});
  return dag;
}

Dag random_dag(std::size_t nodes) {
  Dag dag;
  Random random;
  std::vector<std::uint32_t> before;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    before.clear();
    for (std::uint32_t edges = random.below(Dag::kMostBefore + 1); node != 0 && edges != 0; --edges) {
      const std::uint32_t one = random.below(node);
      if (std::find(before.begin(), before.end(), one) == before.end()) before.push_back(one);
    }
    dag.add(before);
  }
  return dag;
}

std::string name_of(Pattern pattern) {
  switch (pattern) {
    case Pattern::trivial: return "trivial";
    case Pattern::stencil_1d: return "stencil_1d";
    case Pattern::fft: return "fft";
    case Pattern::tree: return "tree";
    case Pattern::random: return "random";
  }
  return {};
}

Dag dag_of(Pattern pattern, std::size_t width, std::size_t steps) {
  Dag dag;
  Random random;
  std::size_t row_before = 0;  // first node of the previous row
  std::vector<std::uint32_t> before;
  for (std::size_t step = 0; step < steps; ++step) {
    const std::size_t row = dag.size();
    const std::size_t tasks = pattern == Pattern::tree && step < 32 ? std::min(width, std::size_t{1} << step) : width;
    for (std::size_t column = 0; column < tasks; ++column) {
      before.clear();
      if (step != 0) {
        for (const std::size_t other : columns_before(pattern, column, width, step, random))
          before.push_back(static_cast<std::uint32_t>(row_before + other));
      }
      dag.add(before);
    }
    row_before = row;
  }
  return dag;
}

}  // namespace dwell::bench
