// The frame of the programs that test a mounted volume from inside a client: named tests, expectations,
// users.
//
// A program registers tests by topic and calls `run_tests`. Every test runs in an empty folder of its own
// (the current one while it runs) and prints one line, "ok TOPIC NAME" or "not ok TOPIC NAME: why". An
// expectation that does not hold ends its test by an exception; the others go on. Single-threaded.
#ifndef SLICE_TESTS_CLUSTER_GUEST_CHECK_H
#define SLICE_TESTS_CLUSTER_GUEST_CHECK_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <source_location>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace slice::guest {

// Why a test failed.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a test asks for that this mount does not have; the test counts as skipped, with the reason.
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Test {
  std::string topic;
  std::string name;
  std::function<void()> body;
};

// Runs the tests whose topic is in `topics` (all, if that is empty) under `base`, which must exist.
// Result: the number of failed tests. Prints a line for each and a summary.
int run_tests(const std::string& base, const std::vector<Test>& tests,
              const std::vector<std::string>& topics);

// --- expectations: `what` says what was tried
// ---------------------------------------------------------------------

[[noreturn]] void fail(const std::string& what, std::source_location at = std::source_location::current());
void expect(bool condition, const std::string& what,
            std::source_location at = std::source_location::current());
// A system call that must succeed; passes its result on.
long expect_ok(long result, const std::string& what,
               std::source_location at = std::source_location::current());
// A system call that must fail with this errno.
void expect_errno(long result, int wanted, const std::string& what,
                  std::source_location at = std::source_location::current());
// The same where the standard leaves the choice.
void expect_errno_in(long result, std::initializer_list<int> wanted, const std::string& what,
                     std::source_location at = std::source_location::current());

template <typename A, typename B>
void expect_eq(const A& got, const B& wanted, const std::string& what,
               std::source_location at = std::source_location::current()) {
  if (got == static_cast<A>(wanted)) return;
  std::ostringstream text;
  text << what << ": got " << got << ", wanted " << wanted;
  fail(text.str(), at);
}

// --- the file system
// ----------------------------------------------------------------------------------------------

// An open descriptor, closed when it goes.
class File {
 public:
  // Opens or fails the test.
  File(const std::string& path, int flags, mode_t mode = 0644);
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();
  int get() const { return descriptor_; }
  // Closes and expects that to succeed: NFS reports write errors here.
  void close();

 private:
  int descriptor_;
};

// True when the current folder is on NFS.
bool on_nfs();
// Makes a kernel client forget pages, attributes and names, so that what follows asks the server. Needs root.
void forget_caches();
struct stat stat_of(const std::string& path);  // lstat; fails the test
void make_file(const std::string& path, std::string_view content = {}, mode_t mode = 0644);
std::string content_of(const std::string& path);
bool exists(const std::string& path);
// Names in a folder without "." and "..", in the order that the server gives them.
std::vector<std::string> names_in(const std::string& path);
// Removes a folder and all in it; errors are ignored.
void remove_tree(const std::string& path);

// Deterministic bytes: byte `position` of stream `seed`. The same everywhere, so that readers need no copy.
std::uint8_t pattern_byte(std::uint64_t seed, std::uint64_t position);
std::string pattern(std::uint64_t seed, std::uint64_t offset, std::size_t size);
// splitmix64: the next number of a sequence; `state` moves on.
std::uint64_t next_random(std::uint64_t& state);

// Acts as another user from here to the end of its scope: effective ids and supplementary groups.
class AsUser {
 public:
  explicit AsUser(uid_t user, gid_t group = 0, std::vector<gid_t> groups = {});
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser();
};

}  // namespace slice::guest

#endif  // SLICE_TESTS_CLUSTER_GUEST_CHECK_H
