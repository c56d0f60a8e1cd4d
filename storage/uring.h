// Uring: reads that have to wait for the disk, by io_uring: no thread waits for any of them, and those of one
// round of the loop are handed over by one system call. For posix_disk.cc and posix_file.cc. The loop's
// thread alone.
#ifndef SLICE_STORAGE_URING_H
#define SLICE_STORAGE_URING_H

#include <coroutine>
#include <cstdint>
#include <memory>

#include "common/bytes.h"
#include "common/loop.h"

struct io_uring;

namespace slice::storage {

class Uring {
 public:
  // Nothing where the system does not let this process have one.
  static std::unique_ptr<Uring> make(Loop& loop);
  // No read may be under way.
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // int n = co_await uring.read(fd, offset, into): bytes (0 at the end of the file, perhaps fewer than asked
  // for), or a negative errno. `into` lives until then.
  auto read(int fd, std::uint64_t offset, ByteSpan into) {
    struct Awaiter : Waiting {
      Uring& uring;
      int fd;
      std::uint64_t offset;
      ByteSpan into;
      Awaiter(Uring& of, int from, std::uint64_t at, ByteSpan to)
          : uring(of), fd(from), offset(at), into(to) {}
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        this->resumed = waiter;
        uring.start(*this, fd, offset, into);
      }
      int await_resume() const noexcept { return this->result; }
    };
    return Awaiter(*this, fd, offset, into);
  }

 private:
  struct Waiting {
    std::coroutine_handle<> resumed;
    int result = 0;
  };

  Uring(Loop& loop, std::unique_ptr<io_uring> ring, int wake);
  void start(Waiting& waiting, int fd, std::uint64_t offset, ByteSpan into);
  void hand_over();
  void reap();

  Loop& loop_;
  std::unique_ptr<io_uring> ring_;
  int wake_;  // an eventfd: who polls the ring itself is not woken for work that is left to us
  bool to_hand_over_ = false;
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_URING_H
