#include "demo_stream.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "demo_operators.hpp"
#include "flight.hpp"

namespace dwell::tool {

namespace {

using Clock = std::chrono::steady_clock;
using u8 = std::uint8_t;
using i16 = std::int16_t;
using u32 = std::uint32_t;

constexpr std::chrono::milliseconds kStretch{500};
constexpr u32 kLoneTiles = 1000;
constexpr u32 kTasksOfTile = 3;
constexpr std::size_t kWideTile = std::size_t{kDemoTile + 2} * (kDemoTile + 2) * 3;  // values that denoise writes
constexpr std::size_t kTile = std::size_t{kDemoTile} * kDemoTile * 3;                // values that sharpen writes

struct Operators {
  explicit Operators(Runtime& runtime)
      : denoise(runtime.define<void(Span<const u8>, u32, u32, u32, Span<i16>)>("denoise", demo_denoise())),
        sharpen(runtime.define<void(Span<const i16>, Span<i16>)>("sharpen", demo_sharpen())),
        tone(runtime.define<void(Span<const i16>, u32, u32, u32, Span<u8>)>("tone", demo_tone())) {}

  Operator<void(Span<const u8>, u32, u32, u32, Span<i16>)> denoise;
  Operator<void(Span<const i16>, Span<i16>)> sharpen;
  Operator<void(Span<const i16>, u32, u32, u32, Span<u8>)> tone;
};

// The memory and state of one pass. Passes in flight do not share memory.
struct Pass {
  Pass(Runtime& runtime, const Image& image)
      : denoised(runtime.allocate<i16>(demo_tiles(image) * kWideTile)),
        sharpened(runtime.allocate<i16>(demo_tiles(image) * kTile)),
        result(runtime.allocate<u8>(image.pixels.size())),
        pixels(image.pixels.size()) {}

  Buffer<i16> denoised;
  Buffer<i16> sharpened;
  Buffer<u8> result;
  std::vector<DemoDemand> demands;       // by tile
  u32 missing = 0;                       // tiles not yet seen complete
  std::vector<u8> pixels;                // `result`, once all tiles are complete
  std::future<std::vector<u8>> matches;  // of `pixels`; computed by another thread
};

struct Note {
  Pass* pass;
  bool last;  // the last of its tile's tasks
};

class DemoStream {
 public:
  DemoStream(Runtime& runtime, const Image& source, const DemoReference& reference)
      : runtime_(runtime),
        source_(source),
        reference_(reference),
        tiles_(demo_tiles(source)),
        operators_(runtime),
        pixels_(runtime.allocate<u8>(source.pixels.size())),
        flight_(kDemoInFlight, [this](const auto& entry, auto seen) { report(entry, seen); }) {
    pixels_.write(source.pixels);
    // Enough passes to check one and drain another while a third is submitted; only two for a large picture, of which less than a pass is
    // in flight.
    const std::size_t filling = kDemoInFlight / (std::size_t{kTasksOfTile} * tiles_);
    const std::size_t slots = std::min<std::size_t>(2 * filling + (tiles_ > 4 * kDemoInFlight ? 2 : 4), 64);
    for (std::size_t i = 0; i < slots; ++i) passes_.push_back(std::make_unique<Pass>(runtime, source));
  }

  DemoFigures run() {
    measure_alone();
    const Clock::time_point start = stretch_ = Clock::now();
    for (; !over() && figures_.failed == 0; ++figures_.passes) {
      Pass& pass = *passes_[figures_.passes % passes_.size()];
      while (pass.missing != 0) flight_.wait();
      judge(pass);
      submit(pass);
    }
    while (flight_.size() != 0) flight_.wait();
    figures_.time = Clock::now() - start;
    // In the order of submission: the oldest pass is used next.
    for (std::size_t i = 0; i < passes_.size(); ++i) judge(*passes_[(figures_.passes + i) % passes_.size()]);
    if (change_.valid()) change_.get();
    figures_.tiles = tiles_submitted_.load(std::memory_order_relaxed);
    figures_.wrong = judge_.wrong();
    figures_.by_phase = judge_.by_phase();
    figures_.after = Image{source_.width, source_.height, std::move(passes_[(figures_.passes - 1) % passes_.size()]->pixels)};
    return std::move(figures_);
  }

 private:
  // Submits a tile's three tasks; the second and third start after the previous one. Returns the tickets.
  std::array<Ticket, kTasksOfTile> submit_tile(Pass& pass, u32 tile) {
    const Slice<i16> denoised = pass.denoised.slice(tile * kWideTile, kWideTile);
    const Slice<i16> sharpened = pass.sharpened.slice(tile * kTile, kTile);
    return {runtime_.submit(operators_.denoise, pixels_, source_.width, source_.height, tile, denoised),
            runtime_.submit(operators_.sharpen, denoised, sharpened, link),
            runtime_.submit(operators_.tone, sharpened, source_.width, source_.height, tile, pass.result, link)};
  }

  void measure_alone() {
    for (u32 i = 0; i < kLoneTiles; ++i) {
      const Clock::time_point start = Clock::now();
      submit_tile(*passes_[0], i % tiles_)[kTasksOfTile - 1].wait();
      figures_.alone.add(Clock::now() - start);
    }
  }

  void submit(Pass& pass) {
    pass.demands.assign(tiles_, {});
    pass.missing = tiles_;
    for (u32 tile = 0; tile < tiles_; ++tile) {
      if (tile % 64 == 0) direct();
      // Only this thread begins changes; another ends them.
      const auto least = returned_.load(std::memory_order_acquire);
      const Clock::time_point start = Clock::now();
      const std::array<Ticket, kTasksOfTile> tickets = submit_tile(pass, tile);
      pass.demands[tile] = {least, begun_};
      tiles_submitted_.fetch_add(1, std::memory_order_relaxed);
      figures_.submitted += kTasksOfTile;
      for (u32 i = 0; i < kTasksOfTile; ++i) flight_.add(tickets[i], start, Note{&pass, i + 1 == kTasksOfTile});
    }
  }

  void report(const Flight<Note>::Entry& entry, Clock::time_point seen) {
    ++figures_.complete;
    if (entry.ticket.status() != 0) {
      if (figures_.failed++ == 0) {
        try {
          entry.ticket.wait();
        } catch (const Error& error) {
          figures_.first_failure = error.message();
        }
      }
    }
    if (!entry.note.last) return;
    figures_.under_load.add(seen - entry.submitted);
    Pass& pass = *entry.note.pass;
    if (--pass.missing != 0 || figures_.failed != 0) return;
    pass.matches = std::async(std::launch::async, [this, &pass] {
      pass.result.read(pass.pixels);
      return demo_matches(reference_, pass.pixels);
    });
  }

  // Checks the tiles of a complete pass, unless done.
  void judge(Pass& pass) {
    if (!pass.matches.valid()) return;
    const std::vector<u8> matches = pass.matches.get();
    for (u32 tile = 0; tile < tiles_; ++tile) judge_.take(pass.demands[tile], matches[tile]);
  }

  // Begins the next change when it is due.
  void direct() {
    const Clock::time_point now = Clock::now();
    if (change_.valid()) {
      if (change_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
      change_.get();
      stretch_ = now;
    }
    if (begun_ == 2 || now - stretch_ < kStretch) return;
    ++begun_;
    change_ = std::async(std::launch::async, [this, change = begun_] {
      DemoChange& figures = change == 1 ? figures_.redefine : figures_.rollback;
      const std::uint64_t tiles = tiles_submitted_.load(std::memory_order_relaxed);
      const Clock::time_point start = Clock::now();
      if (change == 1) {
        operators_.tone.redefine(demo_tone_print());
      } else {
        operators_.tone.rollback();
      }
      figures.took = Clock::now() - start;
      figures.tiles_meanwhile = tiles_submitted_.load(std::memory_order_relaxed) - tiles;
      if (change == 1) figures_.pause = std::chrono::nanoseconds(runtime_.metrics().last_hand_over_ns);
      returned_.store(change, std::memory_order_release);  // pairs with the load before a tile is submitted
    });
  }

  bool over() const { return begun_ == 2 && !change_.valid() && Clock::now() - stretch_ >= kStretch; }

  Runtime& runtime_;
  const Image& source_;
  const DemoReference& reference_;
  const u32 tiles_;
  Operators operators_;
  Buffer<u8> pixels_;
  std::vector<std::unique_ptr<Pass>> passes_;
  Flight<Note> flight_;
  DemoJudge judge_;
  DemoFigures figures_;

  // Changes of the tone operator: how many have begun and how many have returned, and the time since which none runs.
  u8 begun_ = 0;
  std::atomic<u8> returned_{0};
  std::atomic<std::uint64_t> tiles_submitted_{0};  // only counted: orders nothing
  Clock::time_point stretch_;
  std::future<void> change_;
};

}  // namespace

DemoFigures run_demo_stream(Runtime& runtime, const Image& source, const DemoReference& reference) {
  return DemoStream(runtime, source, reference).run();
}

}  // namespace dwell::tool
