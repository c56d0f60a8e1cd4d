// Worker: one process of the generator, which does what a controller tells it over a stream: lines of JSON,
// one answer to each (docs/formats/load-report.md). The controller's own processes are workers as well.
#ifndef SLICE_TESTS_SPEC_LIKE_WORKER_H
#define SLICE_TESTS_SPEC_LIKE_WORKER_H

#include <memory>
#include <optional>
#include <string>

#include "tests/spec-like/client.h"

namespace slice::load {

struct Job {
  Target target;
  std::string mix;  // its text
  std::uint64_t clients = 1;
  std::uint64_t seed = 1;
  std::uint32_t outstanding = 256;
  std::string folder;  // made in the root; the clients' are folder-0, folder-1 ...
};
std::string to_line(const Job& job);  // the request that hands it to a worker

// The clients of one process, on one event loop. Calls run the loop until they are done.
class Worker {
 public:
  Worker() = default;
  ~Worker();
  // Mounts and makes the clients' folders.
  Status prepare(const Job& job);
  Status grow(double operations_per_second);
  Result<Tally> run(double operations_per_second, double warm_up, double interval);  // seconds
  Status clean();
  std::uint64_t files() const;
  std::vector<std::string> take_texts();  // of what went wrong outside of run()

 private:
  // Does something for each client at once; the first error.
  template <class Do>
  Status each_client(Do action);
  template <class T>
  T wait(Task<T> task);

  rpc::EpollLoop loop_;
  Mix mix_;
  std::vector<std::unique_ptr<Client>> clients_;
};

// Serves a controller until it hangs up; then removes what was made. The fd is closed.
void serve_controller(int fd);
// Serves controllers that connect, each connection in a process of its own; answers only where it cannot
// listen.
Status serve_connections(rpc::Endpoint at);

// Lines over a stream. A line over the limit, or an end within one, is an error.
class Lines {
 public:
  explicit Lines(int fd) : fd_(fd) {}
  ~Lines();
  Lines(Lines&& other) noexcept : fd_(std::exchange(other.fd_, -1)), rest_(std::move(other.rest_)) {}
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  Lines& operator=(Lines&&) = delete;
  Status write(std::string line);             // without its newline
  Result<std::optional<std::string>> read();  // nothing: the other side hung up

 private:
  static constexpr std::size_t kLongest = 64 << 20;
  int fd_;
  std::string rest_;
};

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_WORKER_H
