// Gravity after Barnes and Hut: at each step, operators build an octree of objects in the heap, by all threads at once, and sum up the
// masses in its cubes. The collector frees the trees of earlier steps.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include <dwell/dwell.hpp>

namespace {

struct Vector {
  float x, y, z;
};
struct Body {
  Vector at, speed, pull;
  float mass;
};
struct Node;  // objects of operators

constexpr const char* kOctree = R"(
  struct Vector { float x, y, z; };
  Vector operator+(Vector a, Vector b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  Vector operator-(Vector a, Vector b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
  Vector operator*(float a, Vector b) { return {a * b.x, a * b.y, a * b.z}; }
  float square(Vector a) { return a.x * a.x + a.y * a.y + a.z * a.z; }
  struct Body {
    Vector at, speed, pull;
    float mass;
  };

  // A cube with its eight parts, each a smaller cube, a body, or nothing; or a body.
  struct Node {
    dwell::Field<dwell::Array<Node>> parts;  // of a body: nothing
    dwell::Field<Node> above;                // of a cube: the one of which it is a part
    dwell::u32 place;                        // in that
    dwell::u32 summed;                       // parts whose mass is known
    Vector at;                               // the centre of mass
    float mass;
  };
  DWELL_OBJECT(Node, parts, above);

  // Where a cube lies: `half` from its centre to its sides.
  struct Bounds {
    Vector centre;
    float half;
    dwell::u32 place(Vector at) const { return (at.x >= centre.x) | (at.y >= centre.y) << 1 | (at.z >= centre.z) << 2; }
    Bounds part(dwell::u32 place) const {
      const Vector way = {place & 1 ? 0.5f : -0.5f, place & 2 ? 0.5f : -0.5f, place & 4 ? 0.5f : -0.5f};
      return {centre + half * way, 0.5f * half};
    }
  };

  bool is_body(dwell::Group g, dwell::Ref<Node> node) { return !g.at(node)->parts.get(); }
  dwell::Array<Node>& parts(dwell::Group g, dwell::Ref<Node> cube) { return *g.at(g.at(cube)->parts.get()); }
  dwell::Ref<Node> make_cube(dwell::Group g, dwell::Ref<Node> above, dwell::u32 place) {
    return g.make<Node>(g.make_array<Node>(8), above, place, 0u, Vector{}, 0.0f);
  }

  // Begins a tree: a cube around all bodies, without any.
  DWELL_OPERATOR(plant)(dwell::Group g, dwell::Root<Node> tree, dwell::Span<const Body> bodies, dwell::Span<float> half) {
    const auto most = [](float a, float b) { return fmaxf(a, b); };
    float mine = 0;
    for (auto i : g.range(bodies.size())) {
      const Vector at = bodies[i].at;
      mine = most(mine, most(fabsf(at.x), most(fabsf(at.y), fabsf(at.z))));
    }
    const float all = g.reduce(mine, most);
    if (g.rank() != 0) return;
    half[0] = all;
    g.at(tree)->ref.set(g, make_cube(g, {}, 0));
  }

  // Inserts bodies, by all threads at once. A place in a cube is first empty, then has a body, then a smaller cube.
  DWELL_OPERATOR(insert)(dwell::Group g, dwell::Root<Node> tree, dwell::Span<const Body> bodies, dwell::Span<const float> half) {
    for (auto i : g.range(bodies.size())) {
      const auto body = g.make<Node>(dwell::Ref<dwell::Array<Node>>{}, dwell::Ref<Node>{}, 0u, 0u, bodies[i].at, bodies[i].mass);
      Bounds bounds{{}, half[0]};
      dwell::Ref<Node> cube = g.at(tree)->ref.get();
      for (dwell::u32 depth = 0;; ++depth) {
        const dwell::u32 place = bounds.place(bodies[i].at);
        dwell::Field<Node>& field = parts(g, cube)[place];
        dwell::Ref<Node> there = field.acquire();
        if (!there) there = field.compare_exchange(g, {}, body);
        if (!there) break;
        bounds = bounds.part(place);
        if (is_body(g, there)) {
          if (depth == 64) return g.fail(1);  // two bodies at one point
          // A cube with the other body takes its place, unless another thread was faster.
          const auto smaller = make_cube(g, cube, place);
          parts(g, smaller)[bounds.place(g.at(there)->at)].set(g, there);
          const auto before = field.compare_exchange(g, there, smaller);
          there = before == there ? smaller : before;
        }
        cube = there;
      }
    }
  }

  // Sums up masses from the bodies up. The last of the threads that come to a cube goes on.
  DWELL_OPERATOR(sum_up)(dwell::Group g, dwell::Root<Node> tree, dwell::Span<const Body> bodies, dwell::Span<const float> half) {
    for (auto i : g.range(bodies.size())) {
      Bounds bounds{{}, half[0]};
      dwell::Ref<Node> cube = g.at(tree)->ref.get();
      for (;;) {
        const dwell::u32 place = bounds.place(bodies[i].at);
        const auto there = parts(g, cube)[place].get();
        if (is_body(g, there)) break;
        cube = there;
        bounds = bounds.part(place);
      }
      for (; cube; cube = g.at(cube)->above.get()) {
        dwell::u32 count = 0;
        for (dwell::u32 place = 0; place < 8; ++place) count += bool(parts(g, cube)[place].get());
        Node& node = *g.at(cube);
        if (dwell::Span<dwell::u32>(&node.summed, 1).atomic_add(0, 1u, dwell::order::acq_rel) + 1 != count) break;
        for (dwell::u32 place = 0; place < 8; ++place) {
          const auto part = parts(g, cube)[place].get();
          if (!part) continue;
          node.mass += g.at(part)->mass;
          node.at = node.at + g.at(part)->mass * g.at(part)->at;
        }
        node.at = (1 / node.mass) * node.at;
      }
    }
  }

  // Computes the pull on each body, and moves it by a step of time. A cube that looks small from a body pulls as a whole. Each cube knows
  // its place, so the walk needs no stack.
  DWELL_OPERATOR(move)(dwell::Group g, dwell::Root<Node> tree, dwell::Span<Body> bodies, dwell::Span<const float> half, float theta,
                       float soft, float dt) {
    for (auto i : g.range(bodies.size())) {
      Body body = bodies[i];
      body.pull = {};
      float side = half[0];  // of a part of `cube`
      dwell::Ref<Node> cube = g.at(tree)->ref.get();
      for (dwell::u32 place = 0; cube;) {
        if (place == 8) {
          place = g.at(cube)->place + 1;
          cube = g.at(cube)->above.get();
          side *= 2;
          continue;
        }
        const auto there = parts(g, cube)[place++].get();
        if (!there) continue;
        const Node& part = *g.at(there);
        const Vector way = part.at - body.at;
        const float distance = square(way);
        if (is_body(g, there) || side * side < theta * theta * distance) {
          const float near = rsqrtf(distance + soft * soft);
          body.pull = body.pull + part.mass * near * near * near * way;
        } else {
          cube = there;
          place = 0;
          side *= 0.5f;
        }
      }
      body.speed = body.speed + dt * body.pull;
      body.at = body.at + dt * body.speed;
      bodies[i] = body;
    }
  })";

constexpr float kTheta = 0.5F;
constexpr float kSoft = 0.02F;

// Two clouds that pass each other.
std::vector<Body> clouds(unsigned count) {
  std::mt19937 random(1);
  std::normal_distribution<float> spread(0, 0.2F);
  std::vector<Body> bodies(count);
  for (unsigned i = 0; i < count; ++i) {
    const float side = i % 3 == 0 ? 1.0F : -0.5F;
    const Vector at = {side + spread(random), 0.2F * side + spread(random), spread(random)};
    bodies[i] = {at, {-0.5F * side, 0, 0}, {}, (1.0F + static_cast<float>(i % 4)) / (2.5F * static_cast<float>(count))};
  }
  return bodies;
}

// Returns how far the pulls that a step has found are from sums over all pairs of bodies as they were before it, as a part of these.
double error_of(const std::vector<Body>& before, const std::vector<Body>& after) {
  double wrong = 0;
  double all = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    double x = 0, y = 0, z = 0;
    for (const Body& other : before) {
      const double dx = other.at.x - before[i].at.x, dy = other.at.y - before[i].at.y, dz = other.at.z - before[i].at.z;
      const double square = dx * dx + dy * dy + dz * dz + kSoft * kSoft;
      const double pull = other.mass / (square * std::sqrt(square));
      x += pull * dx;
      y += pull * dy;
      z += pull * dz;
    }
    wrong += std::pow(after[i].pull.x - x, 2) + std::pow(after[i].pull.y - y, 2) + std::pow(after[i].pull.z - z, 2);
    all += x * x + y * y + z * z;
  }
  return std::sqrt(wrong / all);
}

}  // namespace

int main() {
  constexpr unsigned kBodies = 2000;
  constexpr unsigned kSteps = 12;
  dwell::Runtime runtime;
  dwell::Heap heap = runtime.heap();
  using Read = void(dwell::Root<Node>, dwell::Span<const Body>, dwell::Span<const float>);
  const auto plant = runtime.define<void(dwell::Root<Node>, dwell::Span<const Body>, dwell::Span<float>)>("plant", kOctree);
  const auto insert = runtime.define<Read>("insert", kOctree);
  const auto sum_up = runtime.define<Read>("sum_up", kOctree);
  const auto move =
      runtime.define<void(dwell::Root<Node>, dwell::Span<Body>, dwell::Span<const float>, float, float, float)>("move", kOctree);

  const dwell::Root<Node> tree = heap.root<Node>("tree");
  auto bodies = runtime.allocate<Body>(kBodies);
  auto half = runtime.allocate<float>(1);
  constexpr auto kGroups = dwell::groups(16);
  dwell::Graph graph("step");
  dwell::Node last = graph.add("plant", plant, tree, bodies, half);
  last = graph.add("insert", insert, tree, bodies, half, kGroups).after(last);
  last = graph.add("sum_up", sum_up, tree, bodies, half, kGroups).after(last);
  graph.add("move", move, tree, bodies, half, kTheta, kSoft, 0.01F, kGroups).after(last);
  const dwell::GraphExec step = runtime.instantiate(graph);

  std::vector<Body> before = clouds(kBodies);
  std::vector<Body> after(kBodies);
  bodies.write(before);
  double error = 0;
  std::size_t most = 0;                 // bytes of trees
  std::size_t least = 0, greatest = 0;  // the same after collections
  for (unsigned i = 1; i <= kSteps; ++i) {
    runtime.launch(step).wait();
    bodies.read(after);
    error = std::max(error, error_of(before, after));
    before.swap(after);
    most = std::max(most, heap.statistics().live_bytes());
    if (i % 4 != 0) continue;
    heap.collect();
    const std::size_t kept = heap.statistics().live_bytes();
    least = least == 0 ? kept : std::min(least, kept);
    greatest = std::max(greatest, kept);
  }
  std::printf("octree: %u steps of %u bodies, pulls within %.2f %%; trees of %zu KiB collected to %zu KiB\n", kSteps, kBodies, 100 * error,
              most / 1024, greatest / 1024);
  return error < 0.01 && greatest < least * 5 / 4 && greatest < most / 2 ? 0 : 1;
}
