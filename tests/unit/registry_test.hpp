// A registry without a compiler or a device, for its tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "jit/source/fingerprint.hpp"
#include "runtime/program/registry.hpp"
#include "tests/unit/bench.hpp"
#include "tests/unit/fake_backend.hpp"
#include "tests/unit/keeper.hpp"

namespace dwell::runtime {

// Requests to the compiler and its results.
struct Workshop {
  std::vector<std::vector<std::string>> images;  // the text of each opcode; empty for a free one
  std::vector<std::vector<std::uint32_t>> uses;  // opcodes used by each opcode of the last image
  std::vector<std::uint32_t> parts;              // of the loop of each image
  std::atomic<std::uint32_t> prepared{0};        // parts of the last loop prepared in advance
  bool refuses_link = false;
  std::mutex mutex;        // guards `options`: texts are compiled by several threads
  CompileOptions options;  // of the last compiled text
  std::string includes;    // included by every text: part of its object and its fingerprint
  std::function<void(const std::string& text)> on_compile = [](const auto&) {};  // called with each text, on the thread that compiles it
};

// Compiles a text to itself. "error" does not compile, "slow" takes a while, a text with "float" takes a float. "a1 uses b c" uses the
// operators b and c without parameters, "a1 uses b:" one with a float.
class FakeCompiler final : public jit::Compiler {
 public:
  explicit FakeCompiler(std::shared_ptr<Workshop> workshop) : workshop_(std::move(workshop)) {}

  jit::Object compile(const jit::Unit& unit) override {
    {
      const std::lock_guard lock(workshop_->mutex);
      workshop_->options = unit.options;
    }
    workshop_->on_compile(unit.text);
    if (unit.text == "error") throw Error(errc::compile_failed, unit.file + ":" + std::to_string(unit.line) + ": error");
    if (unit.text == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::string text = unit.text + workshop_->includes;
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    const bool takes_float = unit.text.find("float") != std::string::npos;
    jit::Object object{{{unit.exports[0].symbol, takes_float ? Signature::of<float>() : Signature()}}, {begin, begin + text.size()}, {}};
    std::istringstream words(unit.text);
    std::string name;
    while (words >> name && name != "uses") {}
    while (words >> name) {
      const bool passes_float = name.back() == ':';
      if (passes_float) name.pop_back();
      object.uses.push_back({name, passes_float ? Signature::of<float>() : Signature()});
    }
    return object;
  }
  jit::Image link(std::span<const jit::Opcode> entries, Tier, std::uint32_t parts) override {
    if (workshop_->refuses_link) throw Error(errc::link_failed, "they do not link");
    std::vector<std::string> image;
    std::vector<std::vector<std::uint32_t>> uses;
    for (const auto& [object, index, used] : entries) {
      image.emplace_back(object == nullptr ? "" : std::string(reinterpret_cast<const char*>(object->bytes.data()), object->bytes.size()));
      uses.push_back(used);
    }
    if (std::ranges::find(image, "unlinkable") != image.end()) throw Error(errc::link_failed, "they do not link");
    workshop_->images.push_back(image);
    workshop_->parts.push_back(parts);
    workshop_->uses = std::move(uses);
    return {{}, {static_cast<std::uint32_t>(10 * workshop_->images.size()), 0, 0}};
  }
  void prepare(std::uint32_t parts) override { workshop_->prepared = parts; }
  std::string fingerprint(const jit::Unit& unit) override { return jit::fingerprint_of(unit, identity(), {}, workshop_->includes); }
  std::string identity() const override { return "fake"; }

 private:
  std::shared_ptr<Workshop> workshop_;
};

class RegistryTest : public testing::Test {
 protected:
  RegistryTest() {
    open(Registry::Settings{});
    bench_.name_of = [this](std::uint32_t opcode) { return registry_->table().name_of(opcode); };
  }

  // Replaces the registry.
  void open(const Registry::Settings& settings) {
    registry_ = std::make_unique<Registry>(std::make_unique<FakeCompiler>(workshop_), backend_, *keeper_, bench_.queue, nullptr, settings);
  }
  Registry::DefinitionPointer define(const std::string& name, const std::string& text) { return registry_->define(name, text); }
  // Submits a task of an operator. Returns its position. It stays in flight until finish().
  std::uint64_t submit(const detail::DefinitionState& definition, std::size_t instance = 0) {
    const detail::Task task = test::task_of({});
    std::uint64_t position = 0;
    EXPECT_TRUE(bench_.queue.try_submit(definition.instances[instance].alias, task, &position));
    return position;
  }
  // Completes a task as a worker does, and the keeper's requests, which the crew passes over.
  void finish(std::uint64_t position, i32 status = 0) {
    bench_.finish(position, status);
    for (std::uint64_t at = bench_.queue.reaped(); at < bench_.queue.tail(); ++at)
      if (bench_.header(at).source == device::source::pass) bench_.finish(at);
  }
  std::uint32_t opcode_of(std::uint64_t position) const { return bench_.header(position).opcode; }
  // The entries of the running image, by opcode.
  const std::vector<std::string>& image() const { return workshop_->images.back(); }
  template <class Function>
  errc kind_of(Function&& function) {
    try {
      function();
    } catch (const Error& error) {
      return error.kind();
    }
    return errc::ok;
  }

  test::Bench bench_{7, 1};
  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeBackend backend_{device_};
  std::shared_ptr<Workshop> workshop_ = std::make_shared<Workshop>();
  std::unique_ptr<Keeper> keeper_ = test::make_keeper(backend_, bench_);
  std::unique_ptr<Registry> registry_;
};

}  // namespace dwell::runtime
