#include "storage/memory_disk.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

namespace slice::storage {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kSector = 512;
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 44;  // as ext4: 16 TiB

using Page = std::array<std::uint8_t, kPage>;
using Pages = std::map<std::uint64_t, std::shared_ptr<Page>>;

std::string parent_of(const std::string& path) {
  auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// The bytes of a file at one moment. Pages are shared between moments and copied when written.
struct Content {
  Pages pages;
  std::uint64_t size = 0;

  void read(std::uint64_t offset, ByteSpan into) const {
    std::memset(into.data(), 0, into.size());
    std::uint64_t end = offset + into.size();
    for (auto it = pages.lower_bound(offset / kPage); it != pages.end() && it->first * kPage < end; ++it) {
      std::uint64_t from = std::max(offset, it->first * kPage), to = std::min(end, (it->first + 1) * kPage);
      std::memcpy(into.data() + (from - offset), it->second->data() + from % kPage, to - from);
    }
  }
  Page& writable(std::uint64_t index) {
    auto& page = pages[index];
    if (!page) {
      page = std::make_shared<Page>();
      page->fill(0);
    } else if (page.use_count() > 1) {
      page = std::make_shared<Page>(*page);
    }
    return *page;
  }
  void write(std::uint64_t offset, ByteView bytes) {
    size = std::max(size, offset + bytes.size());
    for (std::size_t done = 0; done < bytes.size();) {
      std::uint64_t at = offset + done;
      std::size_t n = std::min<std::size_t>(bytes.size() - done, kPage - at % kPage);
      std::memcpy(writable(at / kPage).data() + at % kPage, bytes.data() + done, n);
      done += n;
    }
  }
  void zero(std::uint64_t offset, std::uint64_t end) {
    auto it = pages.lower_bound(offset / kPage);
    while (it != pages.end() && it->first * kPage < end) {
      std::uint64_t from = std::max(offset, it->first * kPage), to = std::min(end, (it->first + 1) * kPage);
      if (to - from == kPage) {
        it = pages.erase(it);
        continue;
      }
      std::memset(writable(it->first).data() + from % kPage, 0, to - from);
      ++it;
    }
  }
  void truncate(std::uint64_t to) {
    if (to < size) zero(to, std::numeric_limits<std::uint64_t>::max());
    size = to;
  }
};

struct Change {
  enum class Kind { kWrite, kTruncate, kPunch } kind;
  std::uint64_t offset = 0, length = 0;
  Buffer bytes;
  bool lost = false;  // a sync that was to write it failed

  void apply(Content& content) const {
    switch (kind) {
      case Kind::kWrite:
        content.write(offset, bytes.view());
        break;
      case Kind::kTruncate:
        content.truncate(offset);
        break;
      case Kind::kPunch:
        content.zero(offset, offset + length);
        break;
    }
  }
  // Only some sectors of a write reach the disk; the others stay as they were.
  void apply_torn(Content& content, std::mt19937_64& random) const {
    if (kind != Kind::kWrite) return apply(content);
    std::uint64_t end = offset + bytes.size();
    for (std::uint64_t at = offset; at < end;) {
      std::uint64_t next = std::min(end, (at / kSector + 1) * kSector);
      if (random() % 2 == 0) content.write(at, bytes.view().subspan(at - offset, next - at));
      at = next;
    }
  }
};

}  // namespace

struct MemoryDisk::Inode {
  explicit Inode(std::shared_ptr<std::uint64_t> used) : used_pages(std::move(used)) {}
  Inode(const Inode&) = delete;
  Inode& operator=(const Inode&) = delete;
  ~Inode() { *used_pages -= counted; }

  std::string path;  // for faults and messages: its latest name
  Content current, durable;
  std::vector<Change> unsynced;
  std::shared_ptr<std::uint64_t> used_pages;
  std::uint64_t counted = 0;

  void count() {
    *used_pages += current.pages.size();
    *used_pages -= counted;
    counted = current.pages.size();
  }
  void change(Change made) {
    made.apply(current);
    unsynced.push_back(std::move(made));
    count();
  }
  // What is lost does not come back behind what is newer.
  void make_durable() {
    for (const auto& change : unsynced) {
      if (!change.lost) change.apply(durable);
    }
    unsynced.clear();
  }
  // Of the first so many changes. Sizes and holes are the file system's own, and in its journal.
  void lose(std::size_t changes) {
    for (std::size_t i = 0; i < std::min(changes, unsynced.size()); ++i) {
      unsynced[i].lost = unsynced[i].kind == Change::Kind::kWrite;
    }
  }
  void crash(Crash how, std::mt19937_64& random) {
    if (how == Crash::kProcess) return;
    for (const auto& change : unsynced) {
      if (how == Crash::kDropUnsynced) break;
      switch (random() % 3) {
        case 0:
          change.apply(durable);
          break;
        case 1:
          change.apply_torn(durable, random);
          break;
        default:
          break;
      }
    }
    unsynced.clear();
    current = durable;
    count();
  }
};

class MemoryDisk::OpenFile : public File {
 public:
  OpenFile(MemoryDisk& disk, std::shared_ptr<Inode> inode)
      : disk_(disk), inode_(std::move(inode)), generation_(disk.generation_) {}

  Task<Result<std::size_t>> read(std::uint64_t offset, ByteSpan into) override {
    auto started = co_await begin({Operation::kRead, inode_->path, offset, into.size()});
    if (!started) co_return fail(started.error());
    const Content& content = inode_->current;
    if (offset >= content.size) co_return std::size_t{0};
    std::size_t n = std::min<std::uint64_t>(into.size(), content.size - offset);
    content.read(offset, into.first(n));
    co_return n;
  }

  Task<Status> write(std::uint64_t offset, ByteView bytes) override {
    SLICE_CO_RETURN_IF_ERROR(co_await begin({Operation::kWrite, inode_->path, offset, bytes.size()}));
    if (offset > kMaxFile || bytes.size() > kMaxFile - offset) {
      co_return fail(Errc::kTooLarge, "{}: offset {} is over the file system's limit", inode_->path, offset);
    }
    std::uint64_t added = 0;
    for (std::uint64_t page = offset / kPage; page * kPage < offset + bytes.size(); ++page) {
      added += inode_->current.pages.contains(page) ? 0 : 1;
    }
    if ((*disk_.used_pages_ + added) * kPage > disk_.options_.capacity_bytes) {
      co_return fail(Errc::kNoSpace, "{}: no space left", inode_->path);
    }
    inode_->change({Change::Kind::kWrite, offset, bytes.size(), Buffer(bytes)});
    co_return Status{};
  }

  Task<Status> sync() override {
    if (sync_failed_) co_return fail(Errc::kIo, "{}: an earlier fsync failed", inode_->path);
    ++disk_.syncs_;
    // What is completed before this call, not what is written while it runs.
    std::size_t until = inode_->unsynced.size();
    auto started = co_await begin({Operation::kSync, inode_->path, 0, 0});
    if (!started) {
      sync_failed_ = true;
      if (generation_ != disk_.generation_) co_return fail(started.error());
      inode_->lose(until);
      co_return fail(started.error());
    }
    inode_->make_durable();
    disk_.make_creation_durable(inode_);
    co_return Status{};
  }

  Task<Status> truncate(std::uint64_t size) override {
    SLICE_CO_RETURN_IF_ERROR(co_await begin({Operation::kTruncate, inode_->path, size, 0}));
    if (size > kMaxFile) co_return fail(Errc::kTooLarge, "{}: size {} is too large", inode_->path, size);
    inode_->change({Change::Kind::kTruncate, size, 0, {}});
    co_return Status{};
  }

  Task<Status> punch(std::uint64_t offset, std::uint64_t length) override {
    SLICE_CO_RETURN_IF_ERROR(co_await begin({Operation::kPunch, inode_->path, offset, length}));
    inode_->change({Change::Kind::kPunch, offset, length, {}});
    co_return Status{};
  }

  std::uint64_t size() const override { return inode_->current.size; }
  Result<std::uint64_t> allocated() const override { return inode_->current.pages.size() * kPage; }

  Result<std::vector<Range>> data_ranges(std::uint64_t offset, std::size_t limit) const override {
    std::vector<Range> ranges;
    const auto& pages = inode_->current.pages;
    for (auto it = pages.lower_bound(offset / kPage); it != pages.end(); ++it) {
      std::uint64_t from = std::max(offset, it->first * kPage);
      std::uint64_t to = std::min((it->first + 1) * kPage, inode_->current.size);
      if (from >= to) break;
      if (!ranges.empty() && ranges.back().offset + ranges.back().length == from) {
        ranges.back().length += to - from;
      } else if (ranges.size() == limit) {
        break;
      } else {
        ranges.push_back({from, to - from});
      }
    }
    return ranges;
  }

 private:
  Task<Status> begin(Access access) {
    if (generation_ != disk_.generation_) co_return crashed();
    SLICE_CO_RETURN_IF_ERROR(co_await disk_.begin(access));
    if (generation_ != disk_.generation_) co_return crashed();
    co_return Status{};
  }
  Status crashed() const { return fail(Errc::kIo, "{}: opened before the crash", inode_->path); }

  MemoryDisk& disk_;
  std::shared_ptr<Inode> inode_;
  std::uint64_t generation_;
  bool sync_failed_ = false;
};

class MemoryDisk::Session : public Disk {
 public:
  explicit Session(MemoryDisk& disk) : disk_(disk), generation_(disk.generation_) {}

  Task<Result<std::unique_ptr<File>>> open(std::string path, Mode mode) override {
    if (crashed()) co_return refuse();
    co_return co_await disk_.open(std::move(path), mode);
  }
  Task<Status> remove(std::string path) override {
    if (crashed()) co_return refuse();
    co_return co_await disk_.remove(std::move(path));
  }
  Task<Status> rename(std::string from, std::string to) override {
    if (crashed()) co_return refuse();
    co_return co_await disk_.rename(std::move(from), std::move(to));
  }
  Task<Result<std::vector<std::string>>> list(std::string folder) override {
    if (crashed()) co_return refuse();
    co_return co_await disk_.list(std::move(folder));
  }
  Task<Status> sync_folder(std::string folder) override {
    if (crashed()) co_return refuse();
    co_return co_await disk_.sync_folder(std::move(folder));
  }
  Result<Space> space() const override {
    if (crashed()) return refuse();
    return disk_.space();
  }

 private:
  bool crashed() const { return generation_ != disk_.generation_; }
  static tl::unexpected<Error> refuse() { return fail(Errc::kIo, "the process has crashed"); }

  MemoryDisk& disk_;
  std::uint64_t generation_;
};

std::unique_ptr<Disk> MemoryDisk::session() {
  return std::make_unique<Session>(*this);
}

MemoryDisk::MemoryDisk(Loop& loop) : MemoryDisk(loop, Options{}) {}
MemoryDisk::MemoryDisk(Loop& loop, Options options) : loop_(loop), options_(options), random_(options.seed) {}
MemoryDisk::~MemoryDisk() = default;

void MemoryDisk::set_delay(Duration least, Duration most) {
  least_delay_ = least;
  most_delay_ = most;
}

Task<Status> MemoryDisk::begin(Access access) {
  ++operations_;
  std::uint64_t generation = generation_;
  if (fault_) {
    auto hook = fault_;  // a hook may replace itself
    if (auto error = (*hook)(access)) co_return fail(std::move(*error));
  }
  if (generation != generation_) co_return fail(Errc::kIo, "{}: crashed", access.path);
  if (most_delay_ > Duration{0}) {
    auto spread = static_cast<std::uint64_t>((most_delay_ - least_delay_).count()) + 1;
    co_await loop_.sleep(least_delay_ + Duration{static_cast<std::int64_t>(random_() % spread)});
    if (generation != generation_) co_return fail(Errc::kIo, "crashed while under way");
  }
  co_return Status{};
}

Task<Result<std::unique_ptr<File>>> MemoryDisk::open(std::string path, Mode mode) {
  auto started = co_await begin({Operation::kOpen, path, 0, 0});
  if (!started) co_return fail(started.error());
  auto found = names_.find(path);
  if (found == names_.end()) {
    if (mode == Mode::kMustExist) co_return fail(Errc::kNotFound, "{}: no such file", path);
    auto inode = std::make_shared<Inode>(used_pages_);
    inode->path = path;
    NameChange made{"", path, inode};
    apply(names_, made);
    unsynced_names_.push_back(std::move(made));
    found = names_.find(path);
  }
  co_return std::make_unique<OpenFile>(*this, found->second);
}

Task<Status> MemoryDisk::remove(std::string path) {
  SLICE_CO_RETURN_IF_ERROR(co_await begin({Operation::kRemove, path, 0, 0}));
  auto found = names_.find(path);
  if (found == names_.end()) {
    // Folders are no more than the beginnings of paths here: an empty one is gone by itself.
    auto inside = names_.lower_bound(path + "/");
    if (inside != names_.end() && inside->first.starts_with(path + "/")) {
      co_return fail(Errc::kExists, "{}: folder is not empty", path);
    }
    co_return fail(Errc::kNotFound, "{}: no such file", path);
  }
  NameChange made{path, "", found->second};
  apply(names_, made);
  unsynced_names_.push_back(std::move(made));
  co_return Status{};
}

Task<Status> MemoryDisk::rename(std::string from, std::string to) {
  SLICE_CO_RETURN_IF_ERROR(co_await begin({Operation::kRename, from, 0, 0}));
  auto found = names_.find(from);
  if (found == names_.end()) co_return fail(Errc::kNotFound, "{}: no such file", from);
  NameChange made{from, to, found->second};
  made.inode->path = to;
  apply(names_, made);
  unsynced_names_.push_back(std::move(made));
  co_return Status{};
}

Task<Result<std::vector<std::string>>> MemoryDisk::list(std::string folder) {
  auto started = co_await begin({Operation::kList, folder, 0, 0});
  if (!started) co_return fail(started.error());
  std::string prefix = folder.empty() ? "" : folder + "/";
  std::set<std::string> found;
  for (auto it = names_.lower_bound(prefix); it != names_.end() && it->first.starts_with(prefix); ++it) {
    std::string rest = it->first.substr(prefix.size());
    found.insert(rest.substr(0, rest.find('/')));
  }
  co_return std::vector<std::string>(found.begin(), found.end());
}

Task<Status> MemoryDisk::sync_folder(std::string folder) {
  SLICE_CO_RETURN_IF_ERROR(co_await begin({Operation::kSyncFolder, folder, 0, 0}));
  ++syncs_;
  std::vector<NameChange> left;
  for (auto& change : unsynced_names_) {
    bool touched = (!change.from.empty() && parent_of(change.from) == folder) ||
                   (!change.to.empty() && parent_of(change.to) == folder);
    if (touched) {
      apply(durable_names_, change);
    } else {
      left.push_back(std::move(change));
    }
  }
  unsynced_names_ = std::move(left);
  co_return Status{};
}

Result<Space> MemoryDisk::space() const {
  std::uint64_t used = std::min(used_bytes(), options_.capacity_bytes);
  return Space{options_.capacity_bytes, options_.capacity_bytes - used, 1 << 20, (1 << 20) - names_.size()};
}

void MemoryDisk::apply(Names& names, const NameChange& change) {
  if (!change.from.empty()) {
    auto found = names.find(change.from);
    // The change before it was lost: nothing to remove or rename.
    if (found == names.end() || found->second != change.inode) return;
    names.erase(found);
  }
  if (!change.to.empty()) names[change.to] = change.inode;
}

void MemoryDisk::make_creation_durable(const std::shared_ptr<Inode>& inode) {
  auto creation = std::find_if(unsynced_names_.begin(), unsynced_names_.end(), [&](const NameChange& change) {
    return change.inode == inode && change.from.empty();
  });
  if (creation == unsynced_names_.end()) return;
  // With whatever happened to that name before: changes of one name reach the disk in their order.
  std::string path = creation->to;
  std::vector<NameChange> left;
  for (auto it = unsynced_names_.begin(); it != unsynced_names_.end(); ++it) {
    bool before = it <= creation && (it->from == path || it->to == path);
    if (before) {
      apply(durable_names_, *it);
    } else {
      left.push_back(*it);
    }
  }
  unsynced_names_ = std::move(left);
}

void MemoryDisk::crash_names(Crash how, std::mt19937_64& random) {
  if (how == Crash::kProcess) return;
  if (how == Crash::kSeeded) {
    for (const auto& change : unsynced_names_) {
      if (random() % 2 == 0) apply(durable_names_, change);
    }
  }
  unsynced_names_.clear();
  names_ = durable_names_;
}

void MemoryDisk::crash(Crash how, std::uint64_t seed) {
  ++generation_;
  std::mt19937_64 random(seed);
  crash_names(how, random);
  std::set<Inode*> seen;  // an inode may have two names when only half of a rename's folders were synced
  for (auto& [path, inode] : names_) {
    if (!seen.insert(inode.get()).second) continue;
    inode->path = path;
    inode->crash(how, random);
  }
}

bool MemoryDisk::corrupt(const std::string& path, std::uint64_t offset, std::uint8_t flip) {
  auto found = names_.find(path);
  if (found == names_.end() || offset >= found->second->current.size) return false;
  auto flip_in = [&](Content& content) {
    std::uint8_t byte = 0;
    content.read(offset, {&byte, 1});
    byte ^= flip;
    if (offset < content.size) content.write(offset, {&byte, 1});
  };
  flip_in(found->second->current);
  flip_in(found->second->durable);
  found->second->count();
  return true;
}

std::uint64_t MemoryDisk::used_bytes() const {
  return *used_pages_ * kPage;
}

std::vector<std::string> MemoryDisk::paths() const {
  std::vector<std::string> all;
  for (const auto& [path, inode] : names_) all.push_back(path);
  return all;
}

}  // namespace slice::storage
