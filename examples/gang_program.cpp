// A pole on a cart, held up by a small network: 3,000 steps of control, each on the last one's result. The operations of a step are
// compiled as one program, in which members of a gang share the network's matrices.
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/dwell.hpp>
#include <dwell/gang_program.hpp>

namespace {

constexpr unsigned kUnits = 128;
constexpr unsigned kSteps = 3000;
constexpr double kStep = 0.001;      // seconds
constexpr double kMass = 1.1;        // kg, of cart and pole
constexpr double kPoleMass = 0.1;    // kg
constexpr double kHalfLength = 0.5;  // m
constexpr double kGravity = 9.8;     // m/s^2
using State = std::array<float, 4>;  // place and speed of the cart, angle and angular speed of the pole
constexpr State kStart = {0, 0, 0.1F, 0};
constexpr std::array<float, 4> kGains = {3, 5, 40, 12};  // N for a unit of each
constexpr float kScale = 0.2F;

// The same step on the host, in double. Its network: the first layer scales the state, the second changes nothing, the third has the gains.
void step_on_host(std::array<double, 4>& state) {
  double force = 0;
  for (unsigned i = 0; i < 4; ++i) force += kGains[i] / kScale * std::tanh(std::tanh(kScale * state[i]));
  const double sine = std::sin(state[2]);
  const double cosine = std::cos(state[2]);
  const double push = (force + kPoleMass * kHalfLength * state[3] * state[3] * sine) / kMass;
  const double turn = (kGravity * sine - cosine * push) / (kHalfLength * (4.0 / 3 - kPoleMass / kMass * cosine * cosine));
  state[1] += kStep * (push - kPoleMass * kHalfLength / kMass * turn * cosine);
  state[3] += kStep * turn;
  state[0] += kStep * state[1];
  state[2] += kStep * state[3];
}

}  // namespace

int main() {
  using dwell::Expression;
  namespace ops = dwell::ops;
  dwell::Runtime runtime;

  // Weights as a training would leave them, a row for each unit.
  std::vector<float> first(kUnits * 4, 0.0F);
  std::vector<float> second(kUnits * kUnits, 0.0F);
  std::vector<float> third(kUnits);
  for (unsigned unit = 0; unit < kUnits; ++unit) {
    first[unit * 4 + unit % 4] = kScale;
    second[unit * kUnits + unit] = 1;
    third[unit] = kGains[unit % 4] / (kScale * kUnits / 4);
  }
  auto w1 = runtime.allocate<float>(first.size());
  auto w2 = runtime.allocate<float>(second.size());
  auto w3 = runtime.allocate<float>(third.size());
  w1.write(first);
  w2.write(second);
  w3.write(third);
  auto state = runtime.allocate<float>(4);
  auto scratch = runtime.allocate<float>(2 * kUnits + 5);  // results between the operations
  state.write(kStart);

  const dwell::TensorView all(state);
  const dwell::TensorView memory(scratch);
  const auto of = [](const dwell::TensorView& from, std::int64_t at, std::int64_t count) { return from.slice(0, at, count); };
  const auto h1 = of(memory, 0, kUnits).reshape({1, kUnits});
  const auto h2 = of(memory, kUnits, kUnits).reshape({1, kUnits});
  const auto force = of(memory, 2 * kUnits, 1);
  const auto sine = of(memory, 2 * kUnits + 1, 1);
  const auto cosine = of(memory, 2 * kUnits + 2, 1);
  const auto push = of(memory, 2 * kUnits + 3, 1);
  const auto turn = of(memory, 2 * kUnits + 4, 1);
  const auto place = of(all, 0, 1);
  const auto speed = of(all, 1, 1);
  const auto angle = of(all, 2, 1);
  const auto angular = of(all, 3, 1);

  dwell::OperationList list;
  {
    dwell::Batch batch(runtime);
    batch.note_in(list);
    batch.mm(h1, all.reshape({1, 4}), dwell::TensorView(w1).reshape({kUnits, 4}).transpose(0, 1));
    batch.assign(h1, ops::tanh(h1));
    batch.mm(h2, h1, dwell::TensorView(w2).reshape({kUnits, kUnits}).transpose(0, 1));
    batch.assign(h2, ops::tanh(h2));
    batch.mm(force.reshape({1, 1}), h2, dwell::TensorView(w3).reshape({kUnits, 1}));
    batch.assign(sine, ops::sin(angle));
    batch.assign(cosine, ops::cos(angle));
    batch.assign(push, (force + Expression(angular) * angular * sine * (kPoleMass * kHalfLength)) / kMass);
    batch.assign(turn, (sine * Expression(kGravity) - Expression(cosine) * push) /
                           ((4.0 / 3 - Expression(cosine) * cosine * (kPoleMass / kMass)) * kHalfLength));
    batch.assign(speed, speed + (push - Expression(turn) * cosine * (kPoleMass * kHalfLength / kMass)) * kStep);
    batch.assign(angular, angular + Expression(turn) * kStep);
    batch.assign(place, place + Expression(speed) * kStep);
    batch.assign(angle, angle + Expression(angular) * kStep);
    batch.flush().wait();  // a batch runs its operations: as tasks, once
  }

  // The state alone is read behind a run: all else stays in the members' memory.
  const dwell::TensorView::Extent read = all.extent();
  const dwell::GangProgram program(runtime, list, [&](const dwell::TensorView::Extent& other) { return other.overlaps(read); });

  state.write(kStart);
  for (unsigned step = 0; step < kSteps; ++step) program.launch().wait();  // a controller acts here, and sleeps until the next step

  State result{};
  state.read(result);
  std::array<double, 4> expected{};
  for (unsigned i = 0; i < 4; ++i) expected[i] = kStart[i];
  for (unsigned step = 0; step < kSteps; ++step) step_on_host(expected);
  for (unsigned i = 0; i < 4; ++i) {
    if (!(std::fabs(result[i] - expected[i]) < 1e-3)) {
      std::printf("gang_program: number %u of the state is %g, not %g\n", i, static_cast<double>(result[i]), expected[i]);
      return 1;
    }
  }
  std::printf("gang_program: %zu operations, in %u steps of %u members; after %u runs the pole stands at %.3f rad\n", list.size(),
              program.steps(), program.members(), kSteps, static_cast<double>(result[2]));
  return 0;
}
