#include "live/channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/byte_stream.hpp"

namespace dwell::live {

namespace {

constexpr std::chrono::milliseconds kSlice{20};  // delay of the check of `stopped`

}  // namespace

Error Channel::broken(const std::string& what) {
  broken_ = true;
  return Error(errc::io_failed, "the connection to the other process " + what);
}

void Channel::wait_for(short events) {
  const auto begin = std::chrono::steady_clock::now();
  const auto deadline = begin + patience_;
  for (;;) {
    pollfd ready{socket_.get(), events, 0};
    const int count = poll(&ready, 1, stopped_ ? static_cast<int>(kSlice.count()) : static_cast<int>(patience_.count()));
    if (stopped_ && stopped_()) throw broken("was given up: the runtime is being closed");
    if (count > 0) {
      left_ -= std::chrono::steady_clock::now() - begin;
      if (left_ < std::chrono::nanoseconds(0)) throw broken("takes too long");
      return;
    }
    if (std::chrono::steady_clock::now() >= deadline) throw broken("makes no progress");
  }
}

void Channel::check() {
  pollfd ready{socket_.get(), POLLRDHUP, 0};
  if (poll(&ready, 1, 0) > 0) throw broken("was closed");
  // No frame is partly sent: the error can be sent.
  if (stopped_ && stopped_()) throw Error(errc::closed, "the runtime is being closed");
}

void Channel::send_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (broken_) throw broken("has broken before");
    const ssize_t put = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN) {
      wait_for(POLLOUT);
    } else if (errno != EINTR) {
      throw broken("broke: " + std::generic_category().message(errno));
    }
  }
}

void Channel::receive_all(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    if (broken_) throw broken("has broken before");
    const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      throw broken("was closed");
    } else if (errno == EAGAIN) {
      wait_for(POLLIN);
    } else if (errno != EINTR) {
      throw broken("broke: " + std::generic_category().message(errno));
    }
  }
}

void Channel::send_request(const std::string& line) { send_all(as_bytes(line + '\n')); }

std::string Channel::receive_request() {
  std::string line;
  for (char next = 0; line.size() < kLongestRequest; line += next) {
    receive_all(std::as_writable_bytes(std::span(&next, 1)));
    if (next == '\n') return line;
  }
  throw Error(errc::invalid_argument, "a request is incomplete");
}

void Channel::send(FrameKind kind, std::span<const std::byte> bytes) {
  ByteWriter header;
  header.number(static_cast<std::uint8_t>(kind));
  header.number(static_cast<std::uint32_t>(bytes.size()));
  send_all(std::move(header).take());
  send_all(bytes);
}

void Channel::send(const Error& error) {
  ByteWriter bytes;
  bytes.number(static_cast<std::int32_t>(error.kind()));
  bytes.raw(as_bytes(std::string_view(error.message()).substr(0, kLongestFrame / 2)));
  send(FrameKind::failure, std::move(bytes).take());
}

Frame Channel::receive() {
  std::array<std::byte, sizeof(std::uint8_t) + sizeof(std::uint32_t)> header{};
  receive_all(header);
  ByteReader reader(header);
  const auto kind = reader.number<std::uint8_t>();
  const auto length = reader.number<std::uint32_t>();
  if (kind > static_cast<std::uint8_t>(FrameKind::failure) || length > kLongestFrame) throw broken("carries an invalid answer");
  Frame frame{static_cast<FrameKind>(kind), std::string(length, '\0')};
  receive_all(std::as_writable_bytes(std::span(frame.bytes)));
  return frame;
}

Error error_in(std::string_view bytes) {
  ByteReader reader(as_bytes(bytes));
  const auto code = reader.number<std::int32_t>();
  return Error(static_cast<errc>(code), std::string(as_text(reader.raw(reader.left()))));
}

}  // namespace dwell::live
