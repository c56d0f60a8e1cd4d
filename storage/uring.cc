#include "storage/uring.h"

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "common/log.h"

namespace slice::storage {
namespace {

constexpr unsigned kEntries = 256;             // of the submission queue: handed over when it is full
constexpr std::size_t kMostBytes = 1U << 30U;  // of one read; the rest is the caller's to ask for again

// Completions are worked off only when we ask for them, on our thread (Linux 6.1); where that is not known,
// whenever the system likes.
constexpr std::array<unsigned, 2> kFlags = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, 0};

}  // namespace

std::unique_ptr<Uring> Uring::make(Loop& loop) {
  int error = 0;
  for (unsigned flags : kFlags) {
    auto ring = std::make_unique<io_uring>();
    error = ::io_uring_queue_init(kEntries, ring.get(), flags);
    if (error != 0) continue;
    int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    error = wake < 0 ? -errno : ::io_uring_register_eventfd(ring.get(), wake);
    if (error == 0) return std::unique_ptr<Uring>(new Uring(loop, std::move(ring), wake));
    if (wake >= 0) ::close(wake);
    ::io_uring_queue_exit(ring.get());
  }
  log_warning("no io_uring ({}): threads read what is not in memory",
              std::generic_category().message(-error));
  return nullptr;
}

Uring::Uring(Loop& loop, std::unique_ptr<io_uring> ring, int wake)
    : loop_(loop), ring_(std::move(ring)), wake_(wake) {
  loop_.watch_readable(wake_, [this] { reap(); });
}

Uring::~Uring() {
  loop_.unwatch_readable(wake_);
  ::io_uring_queue_exit(ring_.get());
  ::close(wake_);
}

void Uring::start(Waiting& waiting, int fd, std::uint64_t offset, ByteSpan into) {
  io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
  if (entry == nullptr) {
    hand_over();
    entry = ::io_uring_get_sqe(ring_.get());
  }
  if (entry == nullptr) {  // the system is out of memory: the caller tries another way
    waiting.result = -EAGAIN;
    loop_.post([waiter = waiting.resumed] { waiter.resume(); });
    return;
  }
  ::io_uring_prep_read(entry, fd, into.data(), static_cast<unsigned>(std::min(into.size(), kMostBytes)),
                       offset);
  ::io_uring_sqe_set_data(entry, &waiting);
  if (to_hand_over_) return;
  to_hand_over_ = true;
  loop_.post([this] {
    to_hand_over_ = false;
    hand_over();
  });
}

void Uring::hand_over() {
  int taken = ::io_uring_submit(ring_.get());
  if (taken >= 0) return;
  if (taken != -EAGAIN && taken != -EBUSY && taken != -EINTR) {
    std::fprintf(stderr, "io_uring_submit: %s\n", std::strerror(-taken));
    std::abort();
  }
  // Once more, after what is under way has been looked at.
  if (to_hand_over_) return;
  to_hand_over_ = true;
  loop_.post([this] {
    to_hand_over_ = false;
    reap();
    hand_over();
  });
}

void Uring::reap() {
  std::uint64_t count = 0;
  [[maybe_unused]] ssize_t n_read = ::read(wake_, &count, sizeof count);
  ::io_uring_get_events(ring_.get());
  std::array<io_uring_cqe*, 64> ended;
  // Who is resumed may start reads, and end, but not this ring.
  while (unsigned n = ::io_uring_peek_batch_cqe(ring_.get(), ended.data(), ended.size())) {
    std::array<std::coroutine_handle<>, 64> resumed;
    for (unsigned i = 0; i < n; ++i) {
      auto* waiting = static_cast<Waiting*>(::io_uring_cqe_get_data(ended[i]));
      waiting->result = ended[i]->res;
      resumed[i] = waiting->resumed;
    }
    ::io_uring_cq_advance(ring_.get(), n);
    for (unsigned i = 0; i < n; ++i) resumed[i].resume();
  }
}

}  // namespace slice::storage
