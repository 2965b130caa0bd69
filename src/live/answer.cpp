#include "live/answer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <ostream>
#include <span>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>

#include "base/byte_stream.hpp"

namespace dwell::live {

namespace {

// Reads the words of a request in order.
class Words {
 public:
  explicit Words(std::string_view request) : rest_(request) {}

  std::string_view word() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  template <class Number>
  Number number() {
    const std::string_view text = word();
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw Error(errc::invalid_argument, "'" + std::string(text) + "' is not a valid number in a request");
    return value;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

void send_pieces(Channel& channel, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), Channel::kLongestFrame));
    channel.send(FrameKind::piece, piece);
    bytes = bytes.subspan(piece.size());
  }
}

// A stream buffer that sends in pieces.
class Pieces : public std::streambuf {
 public:
  explicit Pieces(Channel& channel) : channel_(channel) { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

 protected:
  int_type overflow(int_type next) override {
    sync();
    if (next != traits_type::eof()) sputc(traits_type::to_char_type(next));
    return traits_type::not_eof(next);
  }
  int sync() override {
    send_pieces(channel_, std::as_bytes(std::span(pbase(), pptr())));
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return 0;
  }

 private:
  Channel& channel_;
  std::array<char, 65536> buffer_;
};

// Sends each piece of a trace at once, and throws as soon as nobody waits for it.
class TraceSender : public TraceWriter {
 public:
  TraceSender(std::string_view format, Channel& channel) : channel_(channel), pieces_(channel), out_(&pieces_) {
    out_.exceptions(std::ios::badbit);  // lets the channel's own exceptions through
    if (format == "perfetto") {
      writer_ = perfetto_writer(out_);
    } else if (format == "chrome") {
      writer_ = chrome_writer(out_);
    } else {
      throw Error(errc::invalid_argument, "'" + std::string(format) + "' is no format of a trace: perfetto, chrome");
    }
  }
  void write(const Trace& piece) override {
    channel_.check();
    writer_->write(piece);
    out_.flush();
    dropped_ += piece.dropped;
  }
  void finish() override {
    writer_->finish();
    out_.flush();
  }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::uint64_t dropped_ = 0;
  Channel& channel_;
  Pieces pieces_;
  std::ostream out_;
  std::unique_ptr<TraceWriter> writer_;
};

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  constexpr double kLongest = 3600;
  if (!(seconds >= 0 && seconds <= kLongest)) throw Error(errc::invalid_argument, "a trace takes up to an hour");
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

template <class Function>
const Function& given(const Function& function, const char* what) {
  if (!function) throw Error(errc::unsupported, std::string("this runtime has no ") + what);
  return function;
}

// Returns a source's encoded answer.
std::vector<std::byte> bytes_from(const Source& source, std::string_view verb, Words& words) {
  if (verb == "metrics") return encode(given(source.metrics, "metrics")());
  if (verb == "diagnosis") return encode(given(source.diagnose, "diagnosis")());
  if (verb == "heap") return encode(given(source.heap, "heap")());
  if (verb == "census") return encode(given(source.census, "heap")());
  if (verb == "verify") return encode(given(source.verify, "heap")());
  if (verb == "inspect") {
    const std::string text = given(source.inspect, "description of operators")(words.rest());
    const auto bytes = as_bytes(text);
    return {bytes.begin(), bytes.end()};
  }
  if (verb == "logs") {
    const auto after = words.number<std::uint64_t>();
    const auto most = words.number<std::size_t>();
    LogPage page{{}, after};
    page.records = given(source.logs, "log")(after, most, &page.next);
    return encode(page);
  }
  throw Error(errc::unsupported, "the process does not know the request '" + std::string(verb) + "': use the tool of its version of dwell");
}

// Adds a stop condition to a channel for a scope.
class StopsWhen {
 public:
  StopsWhen(Channel& channel, Channel::Stopped condition) : channel_(channel), before_(channel.stop_when(std::move(condition))) {}
  ~StopsWhen() { channel_.stop_when(std::move(before_)); }
  StopsWhen(const StopsWhen&) = delete;
  StopsWhen& operator=(const StopsWhen&) = delete;

 private:
  Channel& channel_;
  Channel::Stopped before_;
};

// Returns how many events were dropped.
std::uint64_t trace(const Sources::Use& use, Words& words, Channel& channel) {
  // The removal of the source waits for this use, and the server exists as long as any source.
  const StopsWhen stops(channel, [&] { return use.going(); });
  const std::chrono::nanoseconds time = nanoseconds_of(words.number<double>());
  TraceSender writer(words.word(), channel);
  given(use.source().trace, "traces")(time, writer);
  writer.finish();
  return writer.dropped();
}

}  // namespace

void answer(std::string_view request, Sources& sources, Channel& channel) {
  Words words(request);
  const std::string_view verb = words.word();
  try {
    std::vector<std::byte> bytes;
    std::string end;
    if (verb == "runtimes") {
      bytes = encode(sources.runtimes());
    } else {
      const auto runtime = words.number<std::uint64_t>();
      std::optional<Sources::Use> use = sources.use(runtime);
      if (!use) throw Error(errc::closed, "the process has no runtime " + std::to_string(runtime) + " (any more)");
      if (verb == "trace") {
        end = std::to_string(trace(*use, words, channel));
      } else {
        bytes = bytes_from(use->source(), verb, words);
      }
    }
    send_pieces(channel, bytes);
    channel.send(FrameKind::end, as_bytes(end));
  } catch (const Error& error) {
    channel.send(error);
  } catch (const std::bad_alloc&) {
    channel.send(Error(errc::out_of_memory, "the process has no memory for an answer"));
  } catch (const std::exception& thrown) {
    channel.send(Error(errc::io_failed, thrown.what()));
  } catch (...) {
    channel.send(Error(errc::io_failed, "something that is no std::exception was thrown"));
  }
}

}  // namespace dwell::live
