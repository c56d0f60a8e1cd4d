#include "fsck/paths.h"

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "dirserver/fsck/finding.h"
#include "dirserver/fsck/keys.h"

namespace slice::fsck {
namespace {

using dirserver::AttributeCell;
using dirserver::CellKind;
using dirserver::CellRef;
using dirserver::kRootId;
using dirserver::NameBucket;
using dirserver::NameEntry;
using dirserver::fsck::Cursor;

class PathFinder {
 public:
  PathFinder(dirserver::fsck::CellSource& cells, const dirserver::Placement& placement)
      : cells_(cells), placement_(placement) {}

  Task<Result<std::vector<FilePaths>>> find(std::vector<FileId> files) {
    std::vector<FilePaths> found;
    std::map<FileId, std::uint32_t> left;  // names to be found yet, of what is no directory
    for (FileId file : files) {
      auto cell = co_await attributes(file);
      if (!cell) co_return fail(std::move(cell).error());
      found.push_back({.file = file, .exists = cell->has_value(), .links = 0, .paths = {}});
      if (!*cell) continue;
      found.back().links = (*cell)->directory() ? 1 : (*cell)->nlink;
      if (!(*cell)->directory() && (*cell)->nlink > 0) left[file] = (*cell)->nlink;
    }
    SLICE_CO_RETURN_IF_ERROR(co_await read_names(std::move(left)));
    for (FilePaths& each : found) {
      if (!each.exists) continue;
      auto paths = co_await paths_of(each.file);
      if (!paths) co_return fail(std::move(paths).error());
      each.paths = std::move(*paths);
    }
    co_return found;
  }

 private:
  struct Link {
    FileId directory;
    std::string name;
  };

  Task<Result<std::optional<AttributeCell>>> attributes(FileId file) {
    const SiteId site = dirserver::fsck::home_of(file);
    if (site.value >= placement_.sites()) co_return std::optional<AttributeCell>();
    std::vector<std::string> keys;
    keys.push_back(dirserver::attribute_key(site, file));
    auto values = co_await cells_.get(site, std::move(keys));
    if (!values) co_return fail(std::move(values).error());
    const wire::ScanValue& value = values->front();
    if (value.state == wire::ScanValue::State::kAbsent) co_return std::optional<AttributeCell>();
    if (value.state == wire::ScanValue::State::kUnreadable)
      co_return fail(Errc::kCorrupt, "file {:#x}: {}", file.value, value.value);
    auto cell = dirserver::decode_attribute_cell(site, value.value);
    if (!cell) co_return fail(cell.error(), fmt::format("file {:#x}", file.value));
    co_return std::optional<AttributeCell>(std::move(*cell));
  }

  // Calls visit(directory, name) for each name in the range, until that answers false.
  template <class Visit>
  Task<Status> each_name(SiteId site, dirserver::KeyRange range, Visit visit) {
    Cursor cursor(cells_, site, std::move(range));
    while (true) {
      auto there = co_await cursor.fill();
      if (!there) co_return fail(std::move(there).error());
      if (auto gaps = cursor.take_gaps(); !gaps.empty())
        co_return fail(Errc::kCorrupt, "names of site {} cannot be read: {}", site.value,
                       gaps.front().reason);
      if (!*there) co_return Status{};
      const FileId directory = dirserver::fsck::file_of(cursor.cell().key);
      auto bucket = dirserver::decode_name_bucket(cursor.cell().value);
      if (!bucket) co_return fail(bucket.error(), fmt::format("a name in {:#x}", directory.value));
      cursor.next();
      for (const NameEntry& entry : bucket->entries) {
        if (!visit(directory, entry)) co_return Status{};
      }
    }
  }

  Task<Status> read_names(std::map<FileId, std::uint32_t> left) {
    std::set<SiteId> first;
    for (const auto& each : left) first.insert(dirserver::fsck::home_of(each.first));
    std::vector<SiteId> sites(first.begin(), first.end());
    for (std::uint32_t site = 0; site < placement_.sites(); ++site) {
      if (!first.contains(SiteId{site})) sites.push_back(SiteId{site});
    }
    const auto take = [&](FileId directory, const NameEntry& entry) {
      auto of = left.find(entry.target.cell.fileid);
      if (of == left.end()) return true;
      links_[of->first].push_back({directory, entry.name});
      if (--of->second == 0) left.erase(of);
      return !left.empty();
    };
    for (std::size_t i = 0; i < sites.size() && !left.empty(); ++i) {
      const auto names = dirserver::range_of(sites[i], CellKind::kName);
      SLICE_CO_RETURN_IF_ERROR(co_await each_name(sites[i], names, take));
    }
    co_return Status{};
  }

  Task<Result<std::vector<std::string>>> paths_of(FileId file) {
    std::vector<std::string> paths;
    auto names = links_.find(file);
    if (names == links_.end()) {
      auto path = co_await path_of_directory(file);
      if (!path) co_return fail(std::move(path).error());
      if (*path) paths.push_back((*path)->empty() ? "/" : **path);
      co_return paths;
    }
    for (const Link& link : names->second) {
      auto above = co_await path_of_directory(link.directory);
      if (!above) co_return fail(std::move(above).error());
      if (*above) paths.push_back(**above + "/" + link.name);
    }
    co_return paths;
  }

  // Empty: the root. Nothing: it is no directory, or no name of its parent leads to it any more.
  Task<Result<std::optional<std::string>>> path_of_directory(FileId directory) {
    std::string path;
    std::set<FileId> below;
    for (FileId at = directory; at != kRootId;) {
      if (auto known = directories_.find(at); known != directories_.end()) {
        path.insert(0, known->second);
        break;
      }
      // A cycle is there only where the name space is damaged.
      if (!below.insert(at).second) co_return std::optional<std::string>();
      auto cell = co_await attributes(at);
      if (!cell) co_return fail(std::move(cell).error());
      if (!*cell || !(*cell)->directory()) co_return std::optional<std::string>();
      auto name = co_await name_in(at, (*cell)->parent);
      if (!name) co_return fail(std::move(name).error());
      if (name->empty()) co_return std::optional<std::string>();
      path.insert(0, "/" + *name);
      at = (*cell)->parent.fileid;
    }
    directories_[directory] = path;
    co_return std::optional<std::string>(std::move(path));
  }

  // Empty: there is none.
  Task<Result<std::string>> name_in(FileId directory, CellRef parent) {
    std::string name;
    for (SiteId site : placement_.name_sites(parent, SiteId{0})) {
      SLICE_CO_RETURN_IF_ERROR(co_await each_name(site, dirserver::range_of_directory(site, parent.fileid),
                                                  [&](FileId, const NameEntry& entry) {
                                                    if (entry.target.cell.fileid != directory) return true;
                                                    name = entry.name;
                                                    return false;
                                                  }));
      if (!name.empty()) break;
    }
    co_return name;
  }

  dirserver::fsck::CellSource& cells_;
  const dirserver::Placement& placement_;
  std::map<FileId, std::vector<Link>> links_;  // of what is no directory
  std::map<FileId, std::string> directories_;  // their paths
};

}  // namespace

Task<Result<std::vector<FilePaths>>> find_paths(dirserver::fsck::CellSource& cells,
                                                const dirserver::Placement& placement,
                                                std::vector<FileId> files) {
  PathFinder finder(cells, placement);
  co_return co_await finder.find(std::move(files));
}

std::string render(const std::vector<FilePaths>& found, bool json) {
  using Json = nlohmann::ordered_json;
  if (json) {
    Json out{{"files", Json::array()}};
    for (const FilePaths& each : found) {
      out["files"].push_back({{"fileid", each.file.value},
                              {"exists", each.exists},
                              {"links", each.links},
                              {"paths", each.paths}});
    }
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  std::string text;
  for (const FilePaths& each : found) {
    const std::string number = fmt::format("{:#x}", each.file.value);
    for (const std::string& path : each.paths)
      text += fmt::format("{}  {}\n", number, dirserver::fsck::in_quotes(path));
    if (!each.exists) {
      text += number + "  (no such file)\n";
    } else if (each.paths.size() < each.links || each.paths.empty()) {
      text += fmt::format("{}  ({} of {} names found)\n", number, each.paths.size(), each.links);
    }
  }
  return text;
}

Result<FileId> parse_fileid(const std::string& text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const char *begin = text.data() + (hex ? 2 : 0), *end = text.data() + text.size();
  FileId file;
  const auto [at, error] = std::from_chars(begin, end, file.value, hex ? 16 : 10);
  if (error != std::errc() || at != end || file.value == 0)
    return fail(Errc::kInvalid, "'{}' is no fileID: 0x1000000000007 is expected, or a number as ls -i has it",
                text);
  return file;
}

}  // namespace slice::fsck
