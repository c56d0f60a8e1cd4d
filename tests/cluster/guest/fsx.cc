// Random operations on one file against a model in memory: fsx FILE [--ops N] [--seed S] [--size MAX] [--unit
// BYTES]
//
// Every operation's result is compared with the model at once; offsets favour the neighbourhood of multiples
// of the unit (64 KiB: where a file changes servers). On a difference it prints what differs and the
// operations that led there, and ends with 1. The same seed gives the same operations.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/guest/check.h"

namespace slice::guest {
namespace {

struct Options {
  std::string path;
  std::uint64_t ops = 20000;
  std::uint64_t seed = 1;
  std::size_t size = 1 << 20;
  std::size_t unit = 64 * 1024;
};

class Exerciser {
 public:
  explicit Exerciser(const Options& options) : options_(options), random_(options.seed) {
    reopen(O_CREAT | O_TRUNC);
  }
  Exerciser(const Exerciser&) = delete;
  Exerciser& operator=(const Exerciser&) = delete;
  ~Exerciser() {
    if (file_ >= 0) ::close(file_);
  }

  // Runs all operations; throws Failure at the first difference.
  void run() {
    for (done_ = 0; done_ < options_.ops; ++done_) {
      one_operation();
      check_size();
    }
    forget();
    check_range(0, options_.size);
  }

  void print_history() const {
    for (const std::string& line : history_) std::printf("  %s\n", line.c_str());
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : next_random(random_) % limit; }

  // Half of all offsets lie within 4 KiB of a multiple of the unit, often exactly on it.
  std::size_t any_offset(std::size_t limit) {
    if (below(2) == 0) return below(limit);
    const std::uint64_t base = below(options_.size / options_.unit + 1) * options_.unit;
    const std::uint64_t shift = below(4) == 0 ? 0 : below(8192);
    const std::uint64_t offset = base + shift < 4096 ? 0 : base + shift - (shift == 0 ? 0 : 4096);
    return std::min<std::uint64_t>(offset, limit == 0 ? 0 : limit - 1);
  }

  std::size_t any_length(std::size_t limit) {
    const std::uint64_t kind = below(8);
    const std::uint64_t length = kind < 3   ? 1 + below(4096)
                                 : kind < 6 ? 1 + below(options_.unit)
                                            : 1 + below(3 * options_.unit);
    return std::min<std::uint64_t>(length, limit);
  }

  void note(const char* what, std::size_t offset, std::size_t length) {
    history_.push_back(std::to_string(done_) + ": " + what + " offset " + std::to_string(offset) +
                       " length " + std::to_string(length) + ", size before " +
                       std::to_string(model_.size()));
    if (history_.size() > 200) history_.pop_front();
  }

  void must(bool condition, const char* what) const {
    if (!condition) throw Failure(std::string(what) + ": " + std::strerror(errno));
  }

  void one_operation() {
    const std::uint64_t kind = below(100);
    if (kind < 30) return do_write();
    if (kind < 55) return do_read();
    if (kind < 63) return do_truncate();
    if (kind < 71) return do_mapped_write();
    if (kind < 79) return do_mapped_read();
    if (kind < 84) return do_write_beyond();
    if (kind < 90) return do_sync();
    if (kind < 94) return do_reopen();
    if (kind < 99) return do_forget();
    do_punish();
  }

  void put(std::size_t offset, const std::string& bytes) {
    if (model_.size() < offset + bytes.size()) model_.resize(offset + bytes.size(), '\0');
    std::copy(bytes.begin(), bytes.end(), model_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  void write_to_file(std::size_t offset, const std::string& bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t part =
          pwrite(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      must(part > 0, "write");
      done += static_cast<std::size_t>(part);
    }
    put(offset, bytes);
  }

  void do_write() {
    const std::size_t offset = any_offset(options_.size);
    const std::size_t length = any_length(options_.size - offset);
    note("write", offset, length);
    write_to_file(offset, pattern(next_random(random_), 0, length));
  }

  // A write some way behind the end leaves a hole.
  void do_write_beyond() {
    const std::size_t offset = std::min(options_.size - 1, model_.size() + below(2 * options_.unit));
    const std::size_t length = any_length(options_.size - offset);
    note("write beyond the end", offset, length);
    write_to_file(offset, pattern(next_random(random_), 0, length));
  }

  void do_read() {
    const std::size_t offset = any_offset(options_.size);
    const std::size_t length = any_length(options_.size - offset);
    note("read", offset, length);
    check_range(offset, length);
  }

  void do_truncate() {
    const std::size_t size = any_offset(options_.size);
    note("truncate", 0, size);
    must(ftruncate(file_, static_cast<off_t>(size)) == 0, "truncate");
    model_.resize(size, '\0');
  }

  void do_mapped_write() {
    if (model_.empty()) return;
    const std::size_t offset = any_offset(model_.size());
    const std::size_t length = any_length(model_.size() - offset);
    note("mapped write", offset, length);
    const std::string bytes = pattern(next_random(random_), 0, length);
    with_mapping(offset, length, PROT_READ | PROT_WRITE, [&](char* at) {
      std::memcpy(at, bytes.data(), length);
      put(offset, bytes);
    });
  }

  void do_mapped_read() {
    if (model_.empty()) return;
    const std::size_t offset = any_offset(model_.size());
    const std::size_t length = any_length(model_.size() - offset);
    note("mapped read", offset, length);
    with_mapping(offset, length, PROT_READ, [&](const char* at) { compare(at, offset, length); });
  }

  template <typename Use>
  void with_mapping(std::size_t offset, std::size_t length, int protection, Use use) {
    const std::size_t start = offset & ~std::size_t{4095};
    const std::size_t mapped = length + (offset - start);
    void* mapping = mmap(nullptr, mapped, protection, MAP_SHARED, file_, static_cast<off_t>(start));
    must(mapping != MAP_FAILED, "mmap");
    use(static_cast<char*>(mapping) + (offset - start));
    must((protection & PROT_WRITE) == 0 || below(3) != 0 || msync(mapping, mapped, MS_SYNC) == 0, "msync");
    must(munmap(mapping, mapped) == 0, "munmap");
  }

  void do_sync() {
    note("fsync", 0, 0);
    must(fsync(file_) == 0, "fsync");
  }

  void do_reopen() {
    note("close and open", 0, 0);
    reopen(0);
  }

  void do_forget() {
    note("forget caches", 0, 0);
    forget();
  }

  // Now and then the whole file is compared as the server has it.
  void do_punish() {
    note("forget caches, compare all", 0, 0);
    forget();
    check_range(0, options_.size);
  }

  void forget() {
    must(fsync(file_) == 0, "fsync");
    must(posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
  }

  void reopen(int flags) {
    if (file_ >= 0) must(::close(std::exchange(file_, -1)) == 0, "close");
    file_ = open(options_.path.c_str(), O_RDWR | flags, 0644);
    must(file_ >= 0, "open");
  }

  void check_size() const {
    struct stat info{};
    must(fstat(file_, &info) == 0, "fstat");
    if (static_cast<std::size_t>(info.st_size) == model_.size()) return;
    throw Failure("size is " + std::to_string(info.st_size) + ", wanted " + std::to_string(model_.size()));
  }

  void check_range(std::size_t offset, std::size_t length) const {
    std::vector<char> got(length);
    std::size_t done = 0;
    while (done < length) {
      const ssize_t part = pread(file_, got.data() + done, length - done, static_cast<off_t>(offset + done));
      must(part >= 0, "read");
      if (part == 0) break;
      done += static_cast<std::size_t>(part);
    }
    const std::size_t wanted = offset >= model_.size() ? 0 : std::min(length, model_.size() - offset);
    if (done != wanted) {
      throw Failure("read gives " + std::to_string(done) + " bytes, wanted " + std::to_string(wanted));
    }
    compare(got.data(), offset, done);
  }

  void compare(const char* got, std::size_t offset, std::size_t length) const {
    const char* wanted = model_.data() + offset;
    if (std::memcmp(got, wanted, length) == 0) return;
    std::size_t first = 0;
    while (got[first] == wanted[first]) ++first;
    std::size_t last = length - 1;
    while (got[last] == wanted[last]) --last;
    char text[200];
    std::snprintf(text, sizeof text, "bytes %zu to %zu differ: got %02x, wanted %02x at the first",
                  offset + first, offset + last, got[first] & 0xff, wanted[first] & 0xff);
    throw Failure(text);
  }

  Options options_;
  std::uint64_t random_;
  std::uint64_t done_ = 0;
  int file_ = -1;
  std::vector<char> model_;
  std::deque<std::string> history_;
};

Options parse(int argc, char** argv) {
  Options options;
  options.path = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--ops") {
      options.ops = value;
    } else if (name == "--seed") {
      options.seed = value;
    } else if (name == "--size") {
      options.size = value;
    } else if (name == "--unit") {
      options.unit = value;
    } else {
      std::fprintf(stderr, "fsx: no such option: %s\n", argv[i]);
      std::exit(2);
    }
  }
  return options;
}

}  // namespace
}  // namespace slice::guest

int main(int argc, char** argv) {
  using namespace slice::guest;
  if (argc < 2 || argc % 2 != 0) {
    std::fprintf(stderr, "usage: fsx FILE [--ops N] [--seed S] [--size MAX] [--unit BYTES]\n");
    return 2;
  }
  const Options options = parse(argc, argv);
  const auto exerciser = std::make_unique<Exerciser>(options);
  try {
    exerciser->run();
  } catch (const Failure& failure) {
    exerciser->print_history();
    std::printf("not ok fsx, seed %llu: %s\n", static_cast<unsigned long long>(options.seed), failure.what());
    return 1;
  }
  std::printf("ok fsx: %llu operations, seed %llu, up to %zu bytes\n",
              static_cast<unsigned long long>(options.ops), static_cast<unsigned long long>(options.seed),
              options.size);
  return 0;
}
