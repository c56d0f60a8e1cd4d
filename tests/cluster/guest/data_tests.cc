// Bytes: holes, truncation, ends of files, far offsets, and every alignment around the places where a file
// changes servers (64 KiB: both the default threshold and the default stripe unit).

#include <sys/uio.h>

#include <algorithm>

#include "tests/cluster/guest/conformance.h"

namespace slice::guest {
namespace {

constexpr off_t kUnit = 64 * 1024;

void write_at(const File& file, off_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const long done = expect_ok(pwrite(file.get(), bytes.data(), bytes.size(), offset), "pwrite");
    offset += done;
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

std::string read_at(const File& file, off_t offset, std::size_t size) {
  std::string bytes(size, '?');
  std::size_t done = 0;
  while (done < size) {
    const long got = expect_ok(
        pread(file.get(), bytes.data() + done, size - done, offset + static_cast<off_t>(done)), "pread");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

// Compares a file with what it should hold, with nothing left in the client's caches.
void expect_content(const std::string& path, const std::string& wanted, const std::string& what) {
  forget_caches();
  expect_eq(stat_of(path).st_size, wanted.size(), "size " + what);
  const std::string got = content_of(path);
  if (got == wanted) return;
  const auto [at, _] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
  fail("bytes differ from offset " + std::to_string(at - got.begin()) + " of " +
       std::to_string(wanted.size()) + " " + what);
}

// Writes of a few sizes beginning at each place around each boundary, over a filled file.
void writes_at_every_alignment() {
  constexpr std::size_t kSize = 5 * kUnit;
  std::string model = pattern(1, 0, kSize);
  make_file("file", model);
  std::uint64_t seed = 2;
  for (off_t boundary : {kUnit, 2 * kUnit, 3 * kUnit}) {
    for (off_t shift : {-4097, -4096, -4095, -513, -2, -1, 0, 1, 2, 511, 4095, 4096, 4097}) {
      File file("file", O_RDWR);
      for (std::size_t size : {1U, 2U, 3U, 4096U, 8191U, 65536U, 65537U}) {
        const auto offset = static_cast<std::size_t>(boundary + shift);
        const std::string bytes = pattern(++seed, 0, std::min(size, kSize - offset));
        write_at(file, boundary + shift, bytes);
        model.replace(offset, bytes.size(), bytes);
      }
      file.close();
    }
    expect_content("file", model, "after writes around " + std::to_string(boundary));
  }
}

// The same, synchronous and past the client's page cache, so that each write is one request of just that
// shape.
void direct_writes_at_every_alignment() {
  constexpr std::size_t kSize = 4 * kUnit;
  std::string model = pattern(1, 0, kSize);
  make_file("file", model);
  const int descriptor = open("file", O_RDWR | O_DIRECT);
  if (descriptor < 0 && errno == EINVAL) throw Skip("no O_DIRECT here");
  File file(descriptor);
  const long block = on_nfs() ? 1 : 4096;  // NFS takes any alignment
  std::uint64_t seed = 2;
  for (off_t boundary : {kUnit, 2 * kUnit}) {
    for (off_t shift : {-4096, -513, -1, 0, 1, 511, 4096}) {
      for (std::size_t size : {1U, 4096U, 8192U, 65536U, 131072U - 1U}) {
        const off_t offset = boundary + shift;
        if (offset % block != 0 || size % static_cast<std::size_t>(block) != 0) continue;
        std::string bytes = pattern(++seed, 0, std::min(size, kSize - static_cast<std::size_t>(offset)));
        bytes.reserve(bytes.size() + 4096);
        std::vector<char> aligned(bytes.size() + 4096);
        char* start =
            reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(aligned.data()) + 4095) & ~4095UL);
        std::copy(bytes.begin(), bytes.end(), start);
        expect_eq(pwrite(file.get(), start, bytes.size(), offset), bytes.size(), "direct write");
        model.replace(static_cast<std::size_t>(offset), bytes.size(), bytes);
        std::fill(start, start + bytes.size(), '?');
        expect_eq(pread(file.get(), start, bytes.size(), offset), bytes.size(), "direct read");
        expect(std::equal(bytes.begin(), bytes.end(), start),
               "direct read gives other bytes than were written");
      }
    }
  }
  file.close();
  expect_content("file", model, "after direct writes");
}

void reads_at_every_alignment() {
  constexpr std::size_t kSize = 4 * kUnit + 1234;
  const std::string model = pattern(3, 0, kSize);
  make_file("file", model);
  for (off_t boundary : {kUnit, 2 * kUnit, 4 * kUnit + 1234}) {
    for (off_t shift : {-8193, -4096, -1, 0, 1, 4096}) {
      forget_caches();
      File file("file", O_RDONLY);
      for (std::size_t size : {1U, 4095U, 8192U, 70000U}) {
        const off_t offset = boundary + shift;
        const auto at = static_cast<std::size_t>(offset);
        const std::string wanted = at < kSize ? model.substr(at, size) : std::string();
        expect(read_at(file, offset, size) == wanted,
               "read of " + std::to_string(size) + " at " + std::to_string(offset) + " differs");
      }
    }
  }
}

void holes_read_as_zeros() {
  const std::vector<off_t> places = {0, kUnit - 1, kUnit, 3 * kUnit - 1, 10 * kUnit + 5, 40 * kUnit};
  for (off_t place : places) {
    remove_tree("file");
    {
      File file("file", O_RDWR | O_CREAT);
      write_at(file, place, "end");
      file.close();
    }
    std::string wanted(static_cast<std::size_t>(place), '\0');
    wanted += "end";
    expect_content("file", wanted, "with a hole up to " + std::to_string(place));
  }
}

void holes_are_filled_from_behind() {
  std::string model(10 * kUnit, '\0');
  File file("file", O_RDWR | O_CREAT);
  for (int unit = 9; unit >= 0; unit -= 2) {
    const std::string bytes = pattern(static_cast<std::uint64_t>(unit), 0, kUnit);
    write_at(file, unit * kUnit, bytes);
    model.replace(static_cast<std::size_t>(unit * kUnit), bytes.size(), bytes);
  }
  expect_ok(fsync(file.get()), "fsync");
  expect_content("file", model, "with every second unit a hole");
}

// A truncated file that grows again must show zeros, never its old bytes.
void truncated_bytes_do_not_return() {
  for (off_t cut : std::initializer_list<off_t>{0, 1, 100, 4096, kUnit - 1, kUnit, kUnit + 1, 2 * kUnit,
                                                2 * kUnit + 777, 3 * kUnit - 1}) {
    std::string model = pattern(5, 0, 4 * kUnit);
    make_file("file", model);
    forget_caches();
    expect_ok(truncate("file", cut), "truncate");
    model.resize(static_cast<std::size_t>(cut));
    expect_content("file", model, "after truncation to " + std::to_string(cut));
    expect_ok(truncate("file", 5 * kUnit), "truncate upwards");
    model.resize(5 * kUnit);
    expect_content("file", model, "after growing again from " + std::to_string(cut));
    File file("file", O_RDWR);
    write_at(file, 5 * kUnit + 10, "tail");
    file.close();
    model.resize(5 * kUnit + 10);
    model += "tail";
    expect_content("file", model, "after a write behind its end");
  }
}

void truncation_of_an_open_file() {
  File file("file", O_RDWR | O_CREAT);
  std::string model = pattern(6, 0, 3 * kUnit);
  write_at(file, 0, model);
  for (off_t size :
       std::initializer_list<off_t>{2 * kUnit + 10, kUnit + 1, kUnit, kUnit - 1, 4 * kUnit, 10, 0, 70000}) {
    expect_ok(ftruncate(file.get(), size), "ftruncate");
    model.resize(static_cast<std::size_t>(size));
    expect_eq(stat_of("file").st_size, size, "size");
    expect(read_at(file, 0, 5 * kUnit) == model, "content after ftruncate to " + std::to_string(size));
    write_at(file, size / 2, "mark");
    model.resize(std::max<std::size_t>(model.size(), static_cast<std::size_t>(size / 2 + 4)));
    model.replace(static_cast<std::size_t>(size / 2), 4, "mark");
  }
  expect_ok(fsync(file.get()), "fsync");
  expect_content("file", model, "at the end");
}

void end_of_file_is_exact() {
  for (off_t size :
       std::initializer_list<off_t>{1, 8192, kUnit - 1, kUnit, kUnit + 1, 2 * kUnit, 3 * kUnit + 1}) {
    make_file("file", pattern(8, 0, static_cast<std::size_t>(size)));
    forget_caches();
    File file("file", O_RDONLY);
    char byte = 0;
    expect_eq(pread(file.get(), &byte, 1, size - 1), 1, "read of the last byte");
    expect_eq(static_cast<std::uint8_t>(byte), pattern_byte(8, static_cast<std::uint64_t>(size - 1)),
              "last byte");
    expect_eq(pread(file.get(), &byte, 1, size), 0, "read at the end");
    expect_eq(pread(file.get(), &byte, 1, size + kUnit), 0, "read behind the end");
    expect_eq(read_at(file, size - 1, 100000).size(), 1U, "read over the end");
  }
}

void large_offsets_work() {
  const std::vector<off_t> places = {(1LL << 31) - 1, 1LL << 31, (1LL << 32) - 2, 1LL << 32, (1LL << 40) + 5};
  File file("file", O_RDWR | O_CREAT);
  for (off_t place : places) {
    if (ftruncate(file.get(), place) < 0 && errno == EFBIG)
      throw Skip("files of this size do not exist here");
    write_at(file, place, "far away");
    expect_ok(fsync(file.get()), "fsync");
    forget_caches();
    expect_eq(stat_of("file").st_size, place + 8, "size");
    expect_eq(read_at(file, place - 4, 100), std::string(4, '\0') + "far away",
              "bytes at " + std::to_string(place));
    expect_eq(read_at(file, 1 << 20, 8), std::string(8, '\0'), "bytes in the hole before");
    expect_ok(ftruncate(file.get(), 0), "ftruncate");
  }
}

void interleaved_files_do_not_mix() {
  constexpr int kInterleaved = 40;
  for (std::size_t piece = 0; piece < 6; ++piece) {
    for (int i = 0; i < kInterleaved; ++i) {
      File file("file." + std::to_string(i), O_WRONLY | O_CREAT);
      write_at(file, static_cast<off_t>(piece * 23456),
               pattern(static_cast<std::uint64_t>(i), piece * 23456, 23456));
      file.close();
    }
  }
  for (int i = 0; i < kInterleaved; ++i) {
    expect_content("file." + std::to_string(i), pattern(static_cast<std::uint64_t>(i), 0, 6 * 23456),
                   "of a file");
  }
}

// Sizes around those that the small-file server rounds to.
void small_sizes_are_exact() {
  std::vector<std::size_t> sizes;
  for (std::size_t power = 1; power <= 2 * kUnit; power *= 2) {
    sizes.insert(sizes.end(), {power - 1, power, power + 1});
  }
  sizes.insert(sizes.end(), {8300, 3 * 8192, 3 * 8192 + 1, 5 * 8192 - 1});
  for (std::size_t size : sizes) make_file("size." + std::to_string(size), pattern(size, 0, size));
  forget_caches();
  for (std::size_t size : sizes) {
    const std::string name = "size." + std::to_string(size);
    expect_eq(stat_of(name).st_size, size, "size");
    expect(content_of(name) == pattern(size, 0, size), "content of " + name);
  }
  for (std::size_t size : sizes) make_file("size." + std::to_string(size), pattern(size + 1, 0, size));
  forget_caches();
  for (std::size_t size : sizes) {
    expect(content_of("size." + std::to_string(size)) == pattern(size + 1, 0, size),
           "content after rewriting");
  }
}

}  // namespace

std::vector<Test> data_tests() {
  return {{"data", "write_alignment", writes_at_every_alignment},
          {"data", "direct_alignment", direct_writes_at_every_alignment},
          {"data", "read_alignment", reads_at_every_alignment},
          {"data", "holes", holes_read_as_zeros},
          {"data", "holes_filled", holes_are_filled_from_behind},
          {"data", "truncate_and_grow", truncated_bytes_do_not_return},
          {"data", "ftruncate", truncation_of_an_open_file},
          {"data", "end_of_file", end_of_file_is_exact},
          {"data", "large_offsets", large_offsets_work},
          {"data", "interleaved", interleaved_files_do_not_mix},
          {"data", "small_sizes", small_sizes_are_exact}};
}

}  // namespace slice::guest
