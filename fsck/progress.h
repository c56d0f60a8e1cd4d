// Progress: a source of cells that tells people at a terminal how far reading has come, once a second. On
// standard error, on a line that is written over; nothing where that is no terminal.
#ifndef SLICE_FSCK_PROGRESS_H
#define SLICE_FSCK_PROGRESS_H

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "dirserver/fsck/source.h"

namespace slice::fsck {

class Progress : public dirserver::fsck::CellSource {
 public:
  // `source` outlives it.
  explicit Progress(CellSource& source) : source_(source), shown_(::isatty(STDERR_FILENO) == 1) {}
  ~Progress() override {
    if (told_) std::fputs("\r\033[K", stderr);
  }

  Task<Result<wire::ScanResult>> scan(wire::ScanArgs args) override {
    const SiteId site = args.site;
    auto result = co_await source_.scan(std::move(args));
    if (result) cells_ += result->cells.size();
    if (shown_ && Clock::now() >= next_) tell(site);
    co_return result;
  }
  bool live() const override { return source_.live(); }
  std::uint32_t sites() const override { return source_.sites(); }

 private:
  using Clock = std::chrono::steady_clock;

  void tell(SiteId site) {
    std::fprintf(stderr, "\r\033[Kslice-fsck: at site %u of %u, %llu cells read", site.value + 1, sites(),
                 cells_);
    std::fflush(stderr);
    told_ = true;
    next_ = Clock::now() + std::chrono::seconds(1);
  }

  CellSource& source_;
  const bool shown_;
  bool told_ = false;
  unsigned long long cells_ = 0;
  Clock::time_point next_ = Clock::now() + std::chrono::seconds(1);
};

}  // namespace slice::fsck

#endif  // SLICE_FSCK_PROGRESS_H
