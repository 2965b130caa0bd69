// Answers other processes of the same user.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <thread>

#include "base/file.hpp"
#include "live/directory.hpp"
#include "live/process.hpp"
#include "live/sources.hpp"

namespace dwell::live {

// A socket in the directory and a thread that accepts its connections. Each connection has a thread of its own, so an idle one, or a long
// trace, delays nobody else. Connections beyond kMost wait. A connection is closed after one answer, or when idle for too long. Only the
// owner of this process and root are answered. All signals stay with the program's own threads.
class Server {
 public:
  static constexpr std::size_t kMost = 8;  // connections
  static constexpr std::chrono::milliseconds kPatienceForRequests{1000};
  static constexpr std::chrono::milliseconds kPatience{5000};

  // Throws errc::io_failed when the socket cannot be opened, errc::out_of_memory when no thread can be started. `sources` outlives it.
  Server(Directory directory, const Process& process, Sources& sources);
  // Aborts answers being sent. Called when there are no sources any more.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Called in a forked child, which has none of the threads: closes the socket, so that it closes with the parent. The object must not be
  // destroyed there.
  void forget() noexcept { listener_ = File(); }

 private:
  struct Connection {
    std::atomic<bool> done{false};  // release by the connection's thread at its end, acquire before it is joined
    std::thread thread;
  };
  void accept_all() noexcept;
  void accept_one();
  void serve(File socket) noexcept;
  void join(bool all) noexcept;

  const Directory directory_;
  const Process process_;
  Sources& sources_;
  File listener_;
  File wake_;                          // an eventfd: readable when the thread is to end
  std::atomic<bool> stop_{false};      // relaxed: guards nothing
  std::list<Connection> connections_;  // of the accepting thread
  std::thread thread_;
};

}  // namespace dwell::live
