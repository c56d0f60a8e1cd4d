// DirectReads: which reads of a disk go past its page cache, into the memory that they are for: those of
// which it has nothing, and that are not asked for again and again. Such a read costs a tenth of the
// processor time of one through the page cache, which allocates pages and copies out of them; what it has
// answers faster than any disk, so it goes on having what is asked for twice. (After gmblock: E. Koukis, N.
// Koziris, "Efficient block device sharing over Myrinet with memory bypass", 2007.) For posix_disk.cc and
// posix_file.cc. The loop's thread alone.
#ifndef SLICE_STORAGE_DIRECT_READS_H
#define SLICE_STORAGE_DIRECT_READS_H

#include <cstdint>
#include <vector>

#include "common/bytes.h"

namespace slice::storage {

class DirectReads {
 public:
  // What one file remembers of it.
  struct OfFile {
    std::uint64_t number = 0;  // the file's on its file system
    unsigned cached_in_a_row = 0;
    bool refused = false;  // its file system cannot
  };

  explicit DirectReads(bool on) : on_(on) {}

  // Whether to read it directly: as far as is known nothing of it is in memory, nor was asked for lately.
  // Where the kernel does not say what is in memory (cachestat(2), Linux 6.5), never.
  bool wants(int fd, OfFile& file, std::uint64_t offset, ByteSpan into);
  // The page cache had not all of a read of that file: others may not be there either.
  static void missed(OfFile& file) { file.cached_in_a_row = 0; }

 private:
  enum class There { kNothing, kSomething, kUnknown };
  static There in_memory(int fd, std::uint64_t offset, std::uint64_t length);
  // And notes that it is asked for now.
  bool asked_lately(std::uint64_t file, std::uint64_t offset);

  bool on_;
  std::vector<std::uint32_t> asked_;  // tags by hash; 0: nothing
};

}  // namespace slice::storage

#endif  // SLICE_STORAGE_DIRECT_READS_H
