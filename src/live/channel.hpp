// The protocol between a process that publishes and a client.
//
// The client sends one request, a line of text. The server answers with frames, the last of which is `end` or `failure`, and closes:
//   kind     8 bits, FrameKind
//   length  32 bits
//   bytes
// The pieces together form the answer. A failure's bytes are an errc of 32 bits and a message. After a trace, the end's bytes are the
// number of dropped events, as text.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <dwell/error.hpp>

#include "base/file.hpp"

namespace dwell::live {

enum class FrameKind : std::uint8_t { piece, end, failure };

struct Frame {
  FrameKind kind = FrameKind::end;
  std::string bytes;
};

// A connected non-blocking socket. Each call waits until it is done. It throws errc::io_failed after `patience` without progress, and when
// `stopped` returns true. Part of a frame may have been sent by then, so each later call throws too. Used by one thread at a time.
class Channel {
 public:
  using Stopped = std::function<bool()>;
  static constexpr std::size_t kLongestRequest = 1024;
  static constexpr std::size_t kLongestFrame = std::size_t{1} << 20U;

  Channel(File socket, std::chrono::milliseconds patience, Stopped stopped = {})
      : socket_(std::move(socket)), patience_(patience), stopped_(std::move(stopped)) {}

  void send_request(const std::string& line);
  std::string receive_request();

  // At most kLongestFrame bytes.
  void send(FrameKind kind, std::span<const std::byte> bytes);
  void send(const Error& error);
  Frame receive();

  // Throws errc::io_failed when the other side has closed, or `stopped` returns true.
  void check();

  // Limits the total wait of all later calls: a peer that sends single bytes must not hold its caller for ever.
  void wait_in_all(std::chrono::nanoseconds most) { left_ = most; }
  void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }
  // Sets the condition, and returns the one before.
  Stopped stop_when(Stopped condition) { return std::exchange(stopped_, std::move(condition)); }

  int socket() const { return socket_.get(); }

 private:
  void send_all(std::span<const std::byte> bytes);
  // Fills `bytes`; throws when the other side closes first.
  void receive_all(std::span<std::byte> bytes);
  void wait_for(short events);
  Error broken(const std::string& what);

  File socket_;
  std::chrono::milliseconds patience_;
  Stopped stopped_;
  std::chrono::nanoseconds left_ = std::chrono::nanoseconds::max();  // remaining total wait
  bool broken_ = false;
};

// Decodes a failure's bytes.
Error error_in(std::string_view bytes);

}  // namespace dwell::live
