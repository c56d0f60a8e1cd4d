// FileSet: what one client of the generator knows to be on the server: its directories, files, symbolic
// links, their names and, block by block, their bytes. Nobody else touches them, so every reply can be held
// against it. No calls are made here: operations (operations.h) lock what they use, make their calls, and
// tell the file set what became of them.
#ifndef SLICE_TESTS_SPEC_LIKE_FILE_SET_H
#define SLICE_TESTS_SPEC_LIKE_FILE_SET_H

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/sim/random.h"
#include "tests/spec-like/content.h"
#include "wire/nfs3.h"

namespace slice::load {

struct Handle {
  std::array<std::uint8_t, nfs3::kMaxHandle> bytes{};
  std::uint8_t size = 0;
  static Handle of(ByteView view);
  ByteView view() const { return {bytes.data(), size}; }
};

struct File {
  std::uint64_t number = 0;  // its name says it
  std::uint64_t key = 0;     // of its content
  std::uint32_t directory = 0;
  Handle handle;
  FileId fileid;
  std::uint64_t size = 0;
  std::uint64_t nominal = 0;  // what SETATTR cuts it back to
  std::uint32_t mode = 0644;
  std::vector<std::uint32_t> versions;  // of each block; those behind its end are 0
  std::uint64_t cursor = 0;             // the next byte of a sequential mix
  bool temporary = false;               // made by CREATE during the run, may be removed
  // Written unstably and not committed; the server promised the bytes under this verifier.
  bool dirty = false;
  bool lost = false;  // two verifiers were seen since: the server may have forgotten some
  Verifier verifier;
  // Operations that use it now.
  std::uint32_t readers = 0;
  bool writer = false;
  std::size_t active_at = kNowhere, temporary_at = kNowhere;  // places in the file set's lists

  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::string name() const { return "f" + std::to_string(number); }
  Content content(std::uint64_t block) const { return {key, block < versions.size() ? versions[block] : 0}; }
  // A range that is about to be written gets bytes of its own. `offset` is the begin of a block.
  void renew(std::uint64_t offset, std::uint64_t count);
};
// The bytes of a range, as they must be; and where `got` differs from them (an offset in the file).
void fill(const File& file, std::uint64_t offset, ByteSpan out);
std::optional<std::uint64_t> first_difference(const File& file, std::uint64_t offset, ByteView got);

struct Link {
  std::uint32_t directory = 0;
  Handle handle;
  FileId fileid;
  std::string name, target;
};

// What is known of a name. While it is being changed, or when it is not known what became of a change,
// anything goes.
struct NameState {
  FileId fileid;
  nfs3::FileType type = nfs3::FileType::kRegular;
  bool present = false, busy = false, uncertain = false;
  std::uint64_t changed = 0;  // a tick
};

struct Directory {
  std::string name;
  Handle handle;
  FileId fileid;
  std::unordered_map<std::string, NameState> names;
  std::uint32_t listings = 0;  // under way
};

class FileSet {
 public:
  FileSet(std::uint64_t seed, double working_set) : random_(seed), working_set_(working_set) {}
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

  std::deque<Directory>& directories() { return directories_; }
  std::deque<Link>& links() { return links_; }
  // Files that are there, temporary ones too.
  std::uint64_t files() const { return present_; }
  std::uint64_t made() const { return made_; }  // those that are not temporary
  std::size_t active() const { return active_.size(); }
  template <class Action>
  void each_file(Action action) {
    for (File& file : files_) {
      if (file.handle.size > 0) action(file);
    }
  }

  // A file with a name that was never used; there once made() is told. Valid until forget().
  File& new_file(std::uint32_t directory, std::uint64_t nominal, bool temporary);
  // The file is there. It is used from now on when it is of the working set, or temporary.
  void made(File& file);
  void forget(File& file);
  std::uint64_t new_number() { return next_number_++; }

  // A file that nobody changes (and, for `exclusive` or where it is dirty, nobody uses), locked; null where
  // a few draws found none.
  File* pick(bool exclusive);
  File* pick_temporary();
  // A file with unstable bytes, exclusive; null where there is none.
  File* pick_dirty();
  void wrote_unstable(File& file) { dirty_.push_back(&file); }
  void release(File& file);
  std::uint32_t pick_directory() { return static_cast<std::uint32_t>(random_.below(directories_.size())); }
  Link* pick_link() { return links_.empty() ? nullptr : &links_[random_.below(links_.size())]; }
  // A name that is in no directory; one that was once there, if there is such a one.
  std::string missing_name();

  // A change of a name: between begin and end it may be seen or not.
  void begin_change(Directory& directory, const std::string& name);
  void end_change(Directory& directory, const std::string& name, std::optional<FileId> now,
                  nfs3::FileType type = nfs3::FileType::kRegular);
  void give_up_change(Directory& directory, const std::string& name) {
    directory.names[name].uncertain = true;
  }

  sim::Random& random() { return random_; }
  std::uint64_t tick() { return ++tick_; }

 private:
  bool lock(File& file, bool exclusive);

  sim::Random random_;
  double working_set_;
  std::deque<Directory> directories_;
  std::deque<Link> links_;
  std::deque<File> files_;
  std::vector<File*> free_, active_, temporary_, dirty_;
  std::uint64_t next_number_ = 1, present_ = 0, made_ = 0, tick_ = 0;
};

// One listing of a directory, from its first entry to its last, over any number of READDIR calls.
class Listing {
 public:
  Listing(FileSet& files, Directory& directory);
  ~Listing();
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  // What is wrong with an entry; empty: nothing.
  std::string take(std::string_view name, FileId fileid);
  // At the end of the directory: what is missing; empty: nothing.
  std::string end();
  std::size_t entries() const { return seen_.size(); }

 private:
  Directory& directory_;
  std::uint64_t begun_;
  std::unordered_map<std::string, FileId> seen_;
};

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_FILE_SET_H
