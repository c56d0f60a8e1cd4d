#include "storage/direct_reads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/log.h"
#include "storage/disk.h"
#include "storage/mix.h"

namespace slice::storage {
namespace {

// <linux/mman.h> of Linux 6.5, which Debian 12's headers have not.
#ifdef SYS_cachestat
constexpr long kCachestat = SYS_cachestat;
#else
constexpr long kCachestat = 451;
#endif
struct CachestatRange {
  std::uint64_t offset = 0, length = 0;
};
struct Cachestat {
  std::uint64_t cached = 0, dirty = 0, under_writeback = 0, evicted = 0, evicted_lately = 0;
};

// After so many reads that were in memory a file is not asked about any more, until one is not.
constexpr unsigned kMostlyCached = 16;
// Reads that are remembered: of 64 KiB each, 4 GiB.
constexpr std::size_t kRemembered = 65536;

bool is_aligned(std::uint64_t value) {
  return value % kDirectAlignment == 0;
}

}  // namespace

DirectReads::There DirectReads::in_memory(int fd, std::uint64_t offset, std::uint64_t length) {
  CachestatRange range{offset, length};
  Cachestat there;
  if (::syscall(kCachestat, fd, &range, &there, 0) != 0) return There::kUnknown;
  // What the page cache gave away lately, and would keep longer now, is not cold.
  const bool nothing = there.cached + there.dirty + there.under_writeback + there.evicted_lately == 0;
  return nothing ? There::kNothing : There::kSomething;
}

bool DirectReads::asked_lately(std::uint64_t file, std::uint64_t offset) {
  if (asked_.empty()) asked_.resize(kRemembered);
  const std::uint64_t hash = mixed(mixed(file) + offset);
  std::uint32_t& tag = asked_[hash % kRemembered];
  const auto fresh = static_cast<std::uint32_t>(hash >> 32) | 1;
  if (tag == fresh) return true;
  tag = fresh;
  return false;
}

bool DirectReads::wants(int fd, OfFile& file, std::uint64_t offset, ByteSpan into) {
  if (!on_ || file.refused || into.size() < kDirectLeast || file.cached_in_a_row >= kMostlyCached)
    return false;
  if (!is_aligned(offset) || !is_aligned(into.size()) ||
      !is_aligned(reinterpret_cast<std::uintptr_t>(into.data())))
    return false;
  switch (in_memory(fd, offset, into.size())) {
    case There::kSomething:
      ++file.cached_in_a_row;
      return false;
    case There::kUnknown:
      on_ = false;
      log_info("reads go through the page cache: what it has is not told (cachestat: {})",
               std::generic_category().message(errno));
      return false;
    case There::kNothing:
      break;
  }
  file.cached_in_a_row = 0;
  return !asked_lately(file.number, offset);
}

}  // namespace slice::storage
