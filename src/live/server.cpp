#include "live/server.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "base/thread.hpp"
#include "live/answer.hpp"
#include "live/channel.hpp"

namespace dwell::live {

namespace {

// Blocks all signals except faults for a scope, in this thread and those that it starts.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

bool may_look(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

}  // namespace

Server::Server(Directory directory, const Process& process, Sources& sources)
    : directory_(std::move(directory)), process_(process), sources_(sources), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw Error(errc::out_of_memory, std::string("no eventfd can be opened: ") + std::strerror(errno));
  listener_ = directory_.listen(process_);
  try {
    const SignalsBlocked blocked;
    thread_ = with_thread("the one that answers other processes", nullptr, [this] { return std::thread([this] { accept_all(); }); });
  } catch (...) {
    directory_.withdraw(process_);
    throw;
  }
}

Server::~Server() {
  directory_.withdraw(process_);
  stop_.store(true, std::memory_order_relaxed);
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof(one)) == sizeof(one));  // its counter is 0, so there is room
  thread_.join();
}

void Server::accept_all() noexcept {
  pthread_setname_np(pthread_self(), "dwell live");
  constexpr int kLook = 10;  // ms, for room among the connections
  while (!stop_.load(std::memory_order_relaxed)) {
    join(false);
    const bool full = connections_.size() >= kMost;
    pollfd ready[] = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    poll(ready, full ? 1 : 2, full ? kLook : connections_.empty() ? -1 : 1000);
    if (full || ready[1].revents == 0) continue;
    try {
      accept_one();
    } catch (const std::exception&) {
      // No descriptor, memory or thread now: clients wait or give up.
      poll(ready, 1, 10 * kLook);
    }
  }
  join(true);
}

void Server::accept_one() {
  File socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    throw Error(errc::out_of_memory, "no connection can be accepted");
  }
  if (!may_look(socket.get())) return;
  Connection& connection = connections_.emplace_back();
  try {
    connection.thread = std::thread([this, &connection, socket = std::move(socket)]() mutable {
      serve(std::move(socket));
      connection.done.store(true, std::memory_order_release);
    });
  } catch (...) {
    connections_.pop_back();
    throw;
  }
}

void Server::serve(File socket) noexcept {
  pthread_setname_np(pthread_self(), "dwell live look");
  try {
    Channel channel(std::move(socket), kPatienceForRequests, [this] { return stop_.load(std::memory_order_relaxed); });
    const std::string request = channel.receive_request();
    channel.set_patience(kPatience);
    answer(request, sources_, channel);
  } catch (const std::exception&) {
    // Nobody can receive the error.
  }
}

void Server::join(bool all) noexcept {
  connections_.remove_if([&](Connection& connection) {
    if (!all && !connection.done.load(std::memory_order_acquire)) return false;
    connection.thread.join();
    return true;
  });
}

}  // namespace dwell::live
