#include "tests/cluster/guest/check.h"

#include <dirent.h>
#include <ftw.h>
#include <grp.h>
#include <sys/statfs.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

namespace slice::guest {

namespace {

constexpr long kNfsMagic = 0x6969;

std::string with_place(const std::string& what, const std::source_location& at) {
  std::string_view file = at.file_name();
  file.remove_prefix(std::min(file.size(), file.rfind('/') + 1));
  return what + " [" + std::string(file) + ":" + std::to_string(at.line()) + "]";
}

std::string error_name(int error) {
  const char* name = strerrorname_np(error);
  return name != nullptr ? name : std::to_string(error);
}

enum class Outcome { kOk, kFailed, kSkipped };

Outcome run_one(const std::string& base, const Test& test) {
  const std::string folder = base + "/" + test.topic + "." + test.name;
  remove_tree(folder);
  const std::string label = test.topic + " " + test.name;
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome = Outcome::kOk;
  std::string why;
  try {
    expect_ok(mkdir(folder.c_str(), 0777), "mkdir " + folder);
    expect_ok(chmod(folder.c_str(), 0777), "chmod " + folder);
    expect_ok(chdir(folder.c_str()), "chdir " + folder);
    test.body();
  } catch (const Failure& failure) {
    outcome = Outcome::kFailed;
    why = failure.what();
  } catch (const Skip& skip) {
    outcome = Outcome::kSkipped;
    why = skip.what();
  }
  umask(022);
  if (chdir(base.c_str()) == 0) remove_tree(folder);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  switch (outcome) {
    case Outcome::kOk:
      std::printf("ok %s (%.2f s)\n", label.c_str(), seconds);
      break;
    case Outcome::kSkipped:
      std::printf("skipped %s: %s\n", label.c_str(), why.c_str());
      break;
    case Outcome::kFailed:
      std::printf("not ok %s: %s\n", label.c_str(), why.c_str());
      break;
  }
  std::fflush(stdout);
  return outcome;
}

}  // namespace

int run_tests(const std::string& base, const std::vector<Test>& tests,
              const std::vector<std::string>& topics) {
  umask(022);
  int ran = 0, failed = 0, skipped = 0;
  for (const Test& test : tests) {
    if (!topics.empty() && std::find(topics.begin(), topics.end(), test.topic) == topics.end()) continue;
    const Outcome outcome = run_one(base, test);
    ++ran;
    if (outcome == Outcome::kFailed) ++failed;
    if (outcome == Outcome::kSkipped) ++skipped;
  }
  std::printf("%d tests: %d ok, %d skipped, %d failed\n", ran, ran - failed - skipped, skipped, failed);
  if (ran == 0) {
    std::printf("not ok: no test has such a topic\n");
    return 1;
  }
  return failed;
}

void fail(const std::string& what, std::source_location at) {
  throw Failure(with_place(what, at));
}

void expect(bool condition, const std::string& what, std::source_location at) {
  if (!condition) fail(what, at);
}

long expect_ok(long result, const std::string& what, std::source_location at) {
  if (result < 0) fail(what + " failed with " + error_name(errno), at);
  return result;
}

void expect_errno(long result, int wanted, const std::string& what, std::source_location at) {
  expect_errno_in(result, {wanted}, what, at);
}

void expect_errno_in(long result, std::initializer_list<int> wanted, const std::string& what,
                     std::source_location at) {
  const int error = result < 0 ? errno : 0;
  if (std::find(wanted.begin(), wanted.end(), error) != wanted.end() && error != 0) return;
  std::string names;
  for (int one : wanted) names += (names.empty() ? "" : " or ") + error_name(one);
  fail(what + (error == 0 ? " succeeded" : " failed with " + error_name(error)) + ", wanted " + names, at);
}

File::File(const std::string& path, int flags, mode_t mode) : descriptor_(open(path.c_str(), flags, mode)) {
  expect_ok(descriptor_, "open " + path);
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  expect_ok(::close(descriptor), "close");
}

bool on_nfs() {
  struct statfs info{};
  expect_ok(statfs(".", &info), "statfs");
  return info.f_type == kNfsMagic;
}

void forget_caches() {
  sync();
  const int control = open("/proc/sys/vm/drop_caches", O_WRONLY);
  if (control < 0) return;
  const bool done = write(control, "3", 1) == 1;
  ::close(control);
  expect(done, "cannot drop caches");
}

struct stat stat_of(const std::string& path) {
  struct stat info{};
  expect_ok(lstat(path.c_str(), &info), "lstat " + path);
  return info;
}

void make_file(const std::string& path, std::string_view content, mode_t mode) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
  while (!content.empty()) {
    const long done = expect_ok(write(file.get(), content.data(), content.size()), "write " + path);
    content.remove_prefix(static_cast<std::size_t>(done));
  }
  file.close();
}

std::string content_of(const std::string& path) {
  File file(path, O_RDONLY);
  std::string content;
  std::vector<char> buffer(1 << 20);
  while (const long done = expect_ok(read(file.get(), buffer.data(), buffer.size()), "read " + path)) {
    content.append(buffer.data(), static_cast<std::size_t>(done));
  }
  return content;
}

bool exists(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0;
}

std::vector<std::string> names_in(const std::string& path) {
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) fail("opendir " + path + " failed with " + error_name(errno));
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  const int error = errno;
  closedir(folder);
  if (error != 0) fail("readdir " + path + " failed with " + error_name(error));
  return names;
}

void remove_tree(const std::string& path) {
  const auto remove_entry = [](const char* entry, const struct stat*, int, struct FTW*) {
    std::remove(entry);
    return 0;
  };
  nftw(path.c_str(), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t value = (state += 0x9e3779b97f4a7c15ULL);
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::uint8_t pattern_byte(std::uint64_t seed, std::uint64_t position) {
  std::uint64_t state = seed * 0x100000001b3ULL + (position / 8);
  return static_cast<std::uint8_t>(next_random(state) >> (position % 8 * 8));
}

std::string pattern(std::uint64_t seed, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t done = 0; done < size;) {
    const std::uint64_t position = offset + done;
    std::uint64_t state = seed * 0x100000001b3ULL + (position / 8);
    const std::uint64_t word = next_random(state) >> (position % 8 * 8);
    const std::size_t part = std::min<std::size_t>(8 - position % 8, size - done);
    std::memcpy(bytes.data() + done, &word, part);
    done += part;
  }
  return bytes;
}

AsUser::AsUser(uid_t user, gid_t group, std::vector<gid_t> groups) {
  if (group == 0) group = user;
  expect_ok(setgroups(groups.size(), groups.data()), "setgroups");
  expect_ok(setegid(group), "setegid");
  expect_ok(seteuid(user), "seteuid");
}

AsUser::~AsUser() {
  if (seteuid(0) != 0 || setegid(0) != 0 || setgroups(0, nullptr) != 0) {
    std::perror("cannot become root again");
    std::abort();
  }
}

}  // namespace slice::guest
