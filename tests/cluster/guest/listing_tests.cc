// Directory listings: short and long ones, ones that change meanwhile, positions that are kept and returned
// to.

#include <dirent.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tests/cluster/guest/conformance.h"

namespace slice::guest {
namespace {

std::string numbered(int i) {
  return "entry-with-a-longer-name-to-fill-replies." + std::to_string(i);
}

// An open listing, closed when it goes.
class Listing {
 public:
  explicit Listing(const std::string& path) : folder_(opendir(path.c_str())) {
    expect(folder_ != nullptr, "opendir " + path);
  }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;
  ~Listing() { closedir(folder_); }
  // The next entry, or null at the end.
  const dirent* next() {
    errno = 0;
    const dirent* entry = readdir(folder_);
    expect(entry != nullptr || errno == 0, "readdir failed with errno " + std::to_string(errno));
    return entry;
  }
  DIR* get() { return folder_; }

 private:
  DIR* folder_;
};

void every_size_is_listed() {
  int made = 0;
  for (int size : {0, 1, 2, 10, 40, 130, 600, 2000}) {
    for (; made < size; ++made) make_file(numbered(made));
    forget_caches();
    std::vector<std::string> names = names_in(".");
    expect_eq(names.size(), size, "entries listed");
    std::sort(names.begin(), names.end());
    expect(std::unique(names.begin(), names.end()) == names.end(), "a name is listed twice");
    for (int i = 0; i < size; ++i) {
      expect(std::binary_search(names.begin(), names.end(), numbered(i)), numbered(i) + " is not listed");
    }
  }
}

void dot_and_dot_dot_are_listed_once() {
  make_file("file");
  std::map<std::string, std::pair<int, ino_t>> seen;
  Listing listing(".");
  while (const dirent* entry = listing.next()) {
    ++seen[entry->d_name].first;
    seen[entry->d_name].second = entry->d_ino;
  }
  expect_eq(seen.size(), 3U, "entries");
  expect_eq(seen["."].first, 1, "times that . is listed");
  expect_eq(seen[".."].first, 1, "times that .. is listed");
  expect_eq(seen["."].second, stat_of(".").st_ino, "fileid of .");
  expect_eq(seen[".."].second, stat_of("..").st_ino, "fileid of ..");
  expect_eq(seen["file"].second, stat_of("file").st_ino, "fileid of file");
}

void types_and_fileids_agree() {
  make_file("file");
  expect_ok(mkdir("folder", 0755), "mkdir");
  expect_ok(symlink("x", "link"), "symlink");
  expect_ok(mknod("pipe", S_IFIFO | 0600, 0), "mknod");
  forget_caches();
  int entries = 0;
  Listing listing(".");
  while (const dirent* entry = listing.next()) {
    if (entry->d_name[0] == '.') continue;
    ++entries;
    const struct stat info = stat_of(entry->d_name);
    expect_eq(entry->d_ino, info.st_ino, std::string("fileid of ") + entry->d_name);
    if (entry->d_type != DT_UNKNOWN) expect_eq(DTTOIF(entry->d_type), info.st_mode & S_IFMT, entry->d_name);
  }
  expect_eq(entries, 4, "entries");
}

// rm -r as many programs do it: remove each entry as it is listed, and expect an empty folder in the end.
void removal_while_listing() {
  for (int i = 0; i < 1500; ++i) make_file(numbered(i));
  forget_caches();
  Listing listing(".");
  int removed = 0;
  while (const dirent* entry = listing.next()) {
    if (entry->d_name[0] == '.') continue;
    expect_ok(unlink(entry->d_name), std::string("unlink ") + entry->d_name);
    ++removed;
  }
  expect_eq(removed, 1500, "entries listed and removed");
  expect_eq(names_in(".").size(), 0U, "entries left");
}

// Entries that are there all the time are listed exactly once, whatever happens around them.
void changes_do_not_disturb_the_rest() {
  constexpr int kStay = 600;
  for (int i = 0; i < kStay; ++i) make_file("stay." + std::to_string(i));
  for (int i = 0; i < kStay; ++i) make_file("go." + std::to_string(i));
  forget_caches();
  std::map<std::string, int> seen;
  Listing listing(".");
  int step = 0;
  while (const dirent* entry = listing.next()) {
    if (std::string_view(entry->d_name).starts_with("stay.")) ++seen[entry->d_name];
    if (step < kStay) {
      unlink(("go." + std::to_string(step)).c_str());
      make_file("come." + std::to_string(step));
    }
    ++step;
    expect(step < 10 * kStay, "the listing does not end");
  }
  expect_eq(seen.size(), kStay, "lasting entries listed");
  for (const auto& [name, times] : seen) expect_eq(times, 1, "times that " + name + " is listed");
}

void positions_can_be_returned_to() {
  for (int i = 0; i < 300; ++i) make_file(numbered(i));
  forget_caches();
  std::vector<std::pair<long, std::string>> steps;  // position before each entry
  Listing listing(".");
  for (;;) {
    const long position = telldir(listing.get());
    const dirent* entry = listing.next();
    if (entry == nullptr) break;
    steps.emplace_back(position, entry->d_name);
  }
  expect_eq(steps.size(), 302U, "entries");
  for (std::size_t i = 0; i < steps.size(); i += 37) {
    seekdir(listing.get(), steps[i].first);
    const dirent* entry = listing.next();
    expect(entry != nullptr, "nothing at a position that had an entry");
    expect_eq(std::string(entry->d_name), steps[i].second, "entry at a kept position");
  }
}

void rewinding_shows_what_is_new() {
  make_file("one");
  Listing listing(".");
  int before = 0, after = 0;
  while (listing.next() != nullptr) ++before;
  make_file("two");
  rewinddir(listing.get());
  while (listing.next() != nullptr) ++after;
  expect_eq(before, 3, "entries before");
  expect_eq(after, 4, "entries after rewinding");
}

void names_of_every_length() {
  std::set<std::string> wanted;
  for (std::size_t length = 1; length <= 255; ++length) wanted.insert(std::string(length, 'n'));
  for (const std::string& name : wanted) make_file(name);
  forget_caches();
  const std::vector<std::string> names = names_in(".");
  expect(std::set<std::string>(names.begin(), names.end()) == wanted, "names listed differ from those made");
}

void names_of_any_bytes() {
  std::set<std::string> wanted = {
      "\xff\xfe", "space here", "new\nline", "\xc3\xbcml\xc3\xa4ut", "-dash", "a\\b", "*", "...", "..x"};
  for (int byte = 1; byte < 256; ++byte) {
    if (byte != '/' && byte != '.') wanted.insert(std::string(1, static_cast<char>(byte)));
  }
  for (const std::string& name : wanted) make_file(name, name);
  forget_caches();
  const std::vector<std::string> names = names_in(".");
  expect(std::set<std::string>(names.begin(), names.end()) == wanted, "names listed differ from those made");
  for (const std::string& name : wanted) expect_eq(content_of("./" + name), name, "content");
}

void many_folders_are_counted() {
  const nlink_t before = stat_of(".").st_nlink;
  for (int i = 0; i < 100; ++i) expect_ok(mkdir(numbered(i).c_str(), 0755), "mkdir");
  forget_caches();
  expect_eq(stat_of(".").st_nlink, before + 100, "nlink with 100 folders");
  for (int i = 0; i < 50; ++i) expect_ok(rmdir(numbered(i).c_str()), "rmdir");
  forget_caches();
  expect_eq(stat_of(".").st_nlink, before + 50, "nlink with 50 folders");
  expect_eq(stat_of(numbered(60)).st_nlink, 2U, "nlink of an empty folder");
}

}  // namespace

std::vector<Test> listing_tests() {
  return {{"listing", "sizes", every_size_is_listed},
          {"listing", "dots", dot_and_dot_dot_are_listed_once},
          {"listing", "types", types_and_fileids_agree},
          {"listing", "remove_while_listing", removal_while_listing},
          {"listing", "change_while_listing", changes_do_not_disturb_the_rest},
          {"listing", "positions", positions_can_be_returned_to},
          {"listing", "rewind", rewinding_shows_what_is_new},
          {"listing", "name_lengths", names_of_every_length},
          {"listing", "name_bytes", names_of_any_bytes},
          {"listing", "nlink", many_folders_are_counted}};
}

}  // namespace slice::guest
