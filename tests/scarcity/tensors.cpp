// Tensors without memory: flushed results are right, and a batch that has thrown keeps working.
#include <dwell/batch.hpp>
#include <dwell/dlpack.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/scarcity/harness.hpp"

namespace dwell::test {
namespace {

constexpr std::size_t kElements = 64;

class ScarceTensorsTest : public ScarceMemoryTest {
 protected:
  struct Tensors {
    explicit Tensors(World& world)
        : runtime(*world.runtime),
          x(runtime.allocate<float>(kElements)),
          y(runtime.allocate<float>(kElements)),
          z(runtime.allocate<float>(kElements)),
          row(runtime.allocate<float>(8)),
          places(runtime.allocate<i64>(8)),
          index(runtime.allocate<i64>(4)) {
      std::vector<float> values(kElements);
      for (std::size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i);
      x.write(values);
      y.write(values);
      z.write(values);
      row.write(std::vector<float>(8, 0.0F));
      index.write(std::vector<i64>{3, 1, 7, 0});
    }
    static TensorView matrix(const Buffer<float>& of) { return TensorView(of).reshape({8, 8}); }

    Runtime& runtime;
    Buffer<float> x, y, z, row;
    Buffer<i64> places;
    Buffer<i64> index;
  };

  // Most of the time to compile dwell's own operators is spent in the optimiser.
  static Options quickly_compiled() {
    Options options;
    options.compile.flags = {"-O0"};
    return options;
  }

  // Runs `collect` and flushes; compares the results with those of a run with enough memory.
  void at_every_operation(const std::function<void(Tensors&, Batch&)>& collect) {
    const Options options = quickly_compiled();
    std::vector<std::vector<float>> expected;
    for (const long many : {kOne, kPressure}) {
      at_every_allocation(
          [&](World& world) {
            world.open(options);
            world.fill();
            Tensors tensors(world);  // also defines dwell's own operators
            Batch batch(*world.runtime);
            collect(tensors, batch);
            batch.flush().wait();
            expected = results(tensors);
          },
          [&](World& world) {
            std::optional<Tensors> tensors;
            std::optional<Batch> batch;
            insist([&] { tensors.emplace(world); });
            insist([&] { batch.emplace(*world.runtime); });
            const bool threw = throws([&] {
              collect(*tensors, *batch);
              batch->flush().wait();
            });
            ScarceMemory::relent();
            world.runtime->wait_all();
            if (!threw) {
              EXPECT_EQ(results(*tensors), expected);
            }
            // Collected operations still name the old tensors.
            batch->flush().wait();
            tensors.emplace(world);
            collect(*tensors, *batch);
            batch->flush().wait();
            EXPECT_EQ(results(*tensors), expected) << "a batch that has thrown is not what it was";
          },
          many);
    }
  }
  static std::vector<std::vector<float>> results(const Tensors& tensors) {
    return {read(tensors.x), read(tensors.y), read(tensors.z), read(tensors.row)};
  }
};

TEST_F(ScarceTensorsTest, Programs) {
  at_every_operation([](Tensors& t, Batch& batch) {
    const Expression x = TensorView(t.x);
    const Expression y = TensorView(t.y);
    batch.assign(t.z, x * 2.0 + ops::tanh(y));
    batch.apply(TensorOp::add, t.y, {TensorView(t.x), 3.0});
    batch.assign(t.x, ops::where(y, x - 1.0, ops::gt(x, 10.0)));
    batch.assign(TensorView(t.z).slice(0, 0, 32), TensorView(t.z).slice(0, 16, 32) * 2.0);  // overlaps, so it needs a copy
  });
}

TEST_F(ScarceTensorsTest, Reductions) {
  at_every_operation([](Tensors& t, Batch& batch) {
    batch.sum(t.row, Tensors::matrix(t.x), {1});
    batch.softmax(Tensors::matrix(t.y), Tensors::matrix(t.x), 1);
    batch.max(t.row, t.places, Tensors::matrix(t.y), 1);
    batch.cumsum(Tensors::matrix(t.z), Tensors::matrix(t.x), 0);
    batch.layer_norm(Tensors::matrix(t.x), Tensors::matrix(t.z), {8});
  });
}

TEST_F(ScarceTensorsTest, ProductsAndSelections) {
  at_every_operation([](Tensors& t, Batch& batch) {
    batch.mm(Tensors::matrix(t.z), Tensors::matrix(t.x), Tensors::matrix(t.y));
    batch.addmv(t.row, t.row, Tensors::matrix(t.x), TensorView(t.y).slice(0, 0, 8));
    batch.index_select(Tensors::matrix(t.y).slice(0, 0, 4), Tensors::matrix(t.x), 0, t.index);
    batch.tril(Tensors::matrix(t.x), Tensors::matrix(t.z));
    const std::vector<TensorView> parts{TensorView(t.x).slice(0, 0, 32), TensorView(t.z).slice(0, 0, 32)};
    batch.cat(t.y, parts, 0);
  });
}

// A frequent program is compiled; without memory for that it stays interpreted, and is compiled later.
TEST_F(ScarceTensorsTest, CompiledPrograms) {
  Options options = quickly_compiled();
  options.compile_programs_after = 1;
  at_every_allocation(
      [&](World& world) {
        world.open(options);
        world.fill();
        const Batch batch(*world.runtime);
      },
      [](World& world) {
        std::optional<Tensors> tensors;
        std::optional<Batch> batch;
        insist([&] { tensors.emplace(world); });
        insist([&] { batch.emplace(*world.runtime); });
        const auto run = [&] {
          batch->assign(tensors->z, Expression(TensorView(tensors->x)) * 2.0 + TensorView(tensors->y));
          batch->flush().wait();
        };
        for (int i = 0; i < 3; ++i) {
          static_cast<void>(throws(run));
          static_cast<void>(throws([&] { world.runtime->define("waits", adds("waits", 1)); }));
        }
        ScarceMemory::relent();
        const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
        for (u64 before = batch->stats().compiled; batch->stats().compiled == before && std::chrono::steady_clock::now() < end;) run();
        EXPECT_GT(batch->stats().compiled, 0U) << "it stays interpreted for ever";
        const std::vector<float> found = read(tensors->z);
        for (std::size_t i = 0; i < kElements; ++i) EXPECT_EQ(found[i], static_cast<float>(3 * i));
      });
}

// The deleter of a foreign tensor is called once.
TEST_F(ScarceTensorsTest, ForeignTensors) {
  for (const long many : {kOne, kPressure}) {
    at_every_allocation(
        [](World& world) {
          std::atomic<int> dropped{0};
          auto owner = std::shared_ptr<void>(&dropped, [](void* number) { ++*static_cast<std::atomic<int>*>(number); });
          {
            const Buffer<float> memory = world.runtime->allocate<float>(8);
            const TensorView view(memory);
            DLManagedTensor* const made = to_dlpack(*world.runtime, view, std::move(owner));
            const DlpackTensor taken = from_dlpack(*world.runtime, made);
            world.runtime->submit(world.op, world.cells, 0U);
          }
          ScarceMemory::relent();
          world.runtime->wait_all();
          world.runtime->close();
          EXPECT_EQ(dropped, 1);
        },
        many);
  }
}

}  // namespace
}  // namespace dwell::test
