#include "live/client.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>

#include <dwell/error.hpp>

#include "base/byte_stream.hpp"
#include "base/file.hpp"
#include "live/channel.hpp"

namespace dwell::live {

namespace {

constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::seconds kPatienceWithTasks{60};          // of an answer that waits for running tasks
constexpr std::chrono::seconds kLongestStall{60};               // for all pieces of an answer together, beyond its own duration
constexpr std::uint64_t kMostTraced = std::uint64_t{1} << 30U;  // bytes of a trace per started second, plus once
constexpr std::size_t kLongestAnswer = std::size_t{1} << 28U;   // bytes kept in memory

std::string name_of(const Process& process) { return "process " + std::to_string(process.pid); }

// "4711 (solver)"
std::string number_and_program_of(const Process& process) {
  const std::string number = std::to_string(process.pid);
  std::ifstream file("/proc/" + number + "/comm");
  std::string program;
  return std::getline(file, program) ? number + " (" + program + ")" : number;
}

Error nothing_published(const std::string& who) {
  return Error(errc::invalid_argument, who + " publishes nothing: it has opened no dwell::Runtime, or runs with DWELL_LIVE=off");
}

}  // namespace

std::vector<Process> Client::processes() {
  const std::optional<Directory> directory = Directory::find(geteuid());
  return directory ? directory->published() : std::vector<Process>();
}

Client Client::of(pid_t pid) {
  const std::optional<Process> process = Process::with(pid);
  struct stat status {};
  if (!process || stat(("/proc/" + std::to_string(pid)).c_str(), &status) != 0)
    throw Error(errc::invalid_argument, "there is no process " + std::to_string(pid));
  if (status.st_uid != geteuid() && geteuid() != 0)
    throw Error(errc::invalid_argument, name_of(*process) + " is another user's: only that user and root may look at it");
  std::optional<Directory> directory = Directory::find(status.st_uid);
  if (!directory) throw nothing_published(name_of(*process));
  Client client(*std::move(directory), *process);
  if (!client.directory_.connect(*process) && errno != EAGAIN) throw nothing_published(name_of(*process));
  return client;
}

Client Client::of_the_only_one() {
  const std::vector<Process> all = processes();
  if (all.empty()) throw Error(errc::invalid_argument, "no process of yours runs dwell");
  if (all.size() == 1) return of(all.front().pid);
  std::string list;
  for (const Process& process : all) list += (list.empty() ? "" : ", ") + number_and_program_of(process);
  throw Error(errc::invalid_argument, "several processes of yours run dwell: name one of " + list);
}

// Calls `take` with each piece of the answer. Returns the end's bytes.
template <class Take>
std::string Client::ask(const std::string& request, std::chrono::nanoseconds patience, Take take) const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  File socket = directory_.connect(process_);
  // EAGAIN: others wait to be accepted.
  for (; !socket && errno == EAGAIN && std::chrono::steady_clock::now() < deadline; socket = directory_.connect(process_))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (!socket && errno == EAGAIN) throw Error(errc::io_failed, name_of(process_) + " does not answer");
  const auto gone = [&] { return Error(errc::closed, name_of(process_) + (process_.lives() ? " has closed its runtimes" : " is gone")); };
  if (!socket) throw gone();
  Channel channel(std::move(socket), std::chrono::ceil<std::chrono::milliseconds>(patience));
  channel.wait_in_all(patience + kLongestStall);
  try {
    channel.send_request(request);
    for (;;) {
      Frame frame = channel.receive();
      if (frame.kind == FrameKind::end) return std::move(frame.bytes);
      if (frame.kind == FrameKind::failure) throw error_in(frame.bytes);
      take(frame.bytes);
    }
  } catch (const Error& error) {
    if (error.kind() == errc::io_failed && !directory_.connect(process_)) throw gone();
    throw Error(error.kind(), name_of(process_) + ": " + error.message());
  }
}

std::string Client::answer_to(const std::string& request) const { return answer_to(request, kPatience); }

std::string Client::answer_to(const std::string& request, std::chrono::nanoseconds patience) const {
  std::string answer;
  ask(request, patience, [&](const std::string& piece) {
    if (answer.size() + piece.size() > kLongestAnswer) throw Error(errc::unsupported, "the answer is too long");
    answer += piece;
  });
  return answer;
}

RuntimeIds Client::runtimes() const { return decode<RuntimeIds>(as_bytes(answer_to("runtimes"))); }

Metrics Client::metrics(std::uint64_t runtime) const { return decode<Metrics>(as_bytes(answer_to("metrics " + std::to_string(runtime)))); }

Diagnosis Client::diagnosis(std::uint64_t runtime) const {
  return decode<Diagnosis>(as_bytes(answer_to("diagnosis " + std::to_string(runtime))));
}

LogPage Client::logs(std::uint64_t runtime, std::uint64_t after, std::size_t most) const {
  return decode<LogPage>(as_bytes(answer_to("logs " + std::to_string(runtime) + " " + std::to_string(after) + " " + std::to_string(most))));
}

std::string Client::inspect(std::uint64_t runtime, const std::string& name) const {
  if (name.find('\n') != std::string::npos) throw Error(errc::invalid_argument, "no operator has a name of several lines");
  return answer_to("inspect " + std::to_string(runtime) + " " + name);
}

HeapStatistics Client::heap(std::uint64_t runtime) const {
  return decode<HeapStatistics>(as_bytes(answer_to("heap " + std::to_string(runtime))));
}

HeapCensus Client::census(std::uint64_t runtime) const {
  return decode<HeapCensus>(as_bytes(answer_to("census " + std::to_string(runtime), kPatienceWithTasks)));
}

HeapVerification Client::verify(std::uint64_t runtime) const {
  return decode<HeapVerification>(as_bytes(answer_to("verify " + std::to_string(runtime), kPatienceWithTasks)));
}

std::uint64_t Client::trace(std::uint64_t runtime, std::chrono::nanoseconds time, const std::string& format, std::ostream& to) const {
  const std::string seconds = std::to_string(std::chrono::duration<double>(time).count());
  const std::uint64_t most = (static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::seconds>(time).count()) + 1) * kMostTraced;
  std::uint64_t bytes = 0;
  // The first piece may come at the end.
  const std::string end =
      ask("trace " + std::to_string(runtime) + " " + seconds + " " + format, time + kPatience, [&](const std::string& piece) {
        bytes += piece.size();
        if (bytes > most) throw Error(errc::unsupported, "the trace is too long: trace for less time");
        to.write(piece.data(), static_cast<std::streamsize>(piece.size()));
      });
  std::uint64_t dropped = 0;  // an earlier build does not send it
  std::from_chars(end.data(), end.data() + end.size(), dropped);
  return dropped;
}

}  // namespace dwell::live
