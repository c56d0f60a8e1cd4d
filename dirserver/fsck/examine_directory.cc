// A directory's counts: at its own site, and those of its parts on other sites.
#include "dirserver/fsck/examine.h"
#include "dirserver/fsck/keys.h"

namespace slice::dirserver::fsck {
namespace {

using State = wire::ScanValue::State;

constexpr std::uint32_t kPageBytes = 256 << 10;

std::int64_t off_by(std::uint64_t said, std::uint64_t counted) {
  return static_cast<std::int64_t>(said - counted);
}

}  // namespace

// A page and the values of `keys` are of one moment; names that take several pages are of one where the
// values were the same each time, since every change of the names changes one of them.
Task<Result<Examiner::NamesOnSite>> Examiner::count_names(SiteId site, FileId directory,
                                                          std::vector<std::string> keys) {
  NamesOnSite names;
  KeyRange range = range_of_directory(site, directory);
  for (bool first = true; first || !range.begin.empty(); first = false) {
    auto page = co_await source_.scan(
        {.site = site, .keys = keys, .begin = range.begin, .end = range.end, .limit = kPageBytes});
    if (!page) co_return fail(std::move(page).error());
    if (!first && page->values != names.values) names.settled = false;
    names.values = std::move(page->values);
    for (const wire::ScanCell& cell : page->cells) {
      auto bucket = decode_name_bucket(cell.value);
      if (!bucket) continue;  // its own suspect
      names.entries += bucket->entries.size();
      for (const NameEntry& entry : bucket->entries) {
        if (entry.target.type == nfs3::FileType::kDirectory) ++names.subdirectories;
      }
    }
    range.begin = page->next;
  }
  co_return names;
}

Task<Result<Verdict>> Examiner::directory(std::string key) {
  SiteId site = site_of(key);
  FileId file = file_of(key);
  auto names = co_await count_names(site, file, {key});
  if (!names) co_return fail(std::move(names).error());
  Verdict verdict;
  auto cell = decode_attributes(key, names->values[0], verdict);
  if (!cell || !cell->directory()) co_return verdict;
  verdict.settled = names->settled;
  if (cell->entries != names->entries) {
    verdict.findings.push_back(
        {.kind = Kind::kEntries,
         .site = site,
         .file = file,
         .what = fmt::format("it counts {} names, and has {} on its site", cell->entries, names->entries),
         .by = off_by(cell->entries, names->entries)});
  }
  auto known = co_await known_subdirectories(key, names->values[0], verdict);
  if (!known) co_return fail(std::move(known).error());
  std::uint64_t subdirectories = names->subdirectories + *known;
  if (cell->nlink != 2 + subdirectories) {
    verdict.findings.push_back({.kind = Kind::kLinkCount,
                                .site = site,
                                .file = file,
                                .what = fmt::format("its link count is {}, and it has {} subdirectories",
                                                    cell->nlink, subdirectories),
                                .by = off_by(cell->nlink, 2 + subdirectories)});
  }
  co_return verdict;
}

// What the directory's own site knows of its parts, while the directory's cell stays as it was.
Task<Result<std::uint64_t>> Examiner::known_subdirectories(std::string key, wire::ScanValue cell,
                                                           Verdict& verdict) {
  std::uint64_t sum = 0;
  KeyRange range = range_of_known_parts(site_of(key), file_of(key));
  while (!range.begin.empty()) {
    auto page = co_await source_.scan(
        {.site = site_of(key), .keys = {key}, .begin = range.begin, .end = range.end, .limit = kPageBytes});
    if (!page) co_return fail(std::move(page).error());
    if (page->values[0] != cell) verdict.settled = false;
    for (const wire::ScanCell& each : page->cells) {
      if (auto part = decode_known_part(each.value)) sum += part->subdirectories;
    }
    range.begin = page->next;
  }
  co_return sum;
}

Task<Result<Verdict>> Examiner::part(std::string key) {
  SiteId site = site_of(key);
  FileId file = file_of(key);
  SiteId home = home_of(file);
  std::vector<std::string> here{key, owed_touch_key(site, file)};
  auto names = co_await count_names(site, file, here);
  if (!names) co_return fail(std::move(names).error());
  std::vector<wire::ScanValue> there(2);
  std::vector<std::string> there_keys{attribute_key(home, file), known_part_key(home, file, site)};
  if (has_site(home)) {
    auto values = co_await source_.get(home, there_keys);
    if (!values) co_return fail(std::move(values).error());
    there = std::move(*values);
  }
  Verdict verdict{.settled = names->settled};
  if (source_.live()) {
    auto again = co_await source_.get(site, here);
    if (!again) co_return fail(std::move(again).error());
    if (*again != names->values) verdict.settled = false;
  }
  PartCell part;
  bool has_part = names->values[0].state != State::kAbsent;
  if (has_part) {
    if (!check_stored(key, names->values[0], verdict)) co_return verdict;
    part = *decode_part(names->values[0].value);
  }
  auto say = [&](Kind kind, std::int64_t by, std::string what) {
    verdict.findings.push_back({.kind = kind, .site = site, .file = file, .what = std::move(what), .by = by});
  };
  Verdict of_directory;  // said by other aspects
  auto cell = decode_attributes(there_keys[0], there[0], of_directory);
  if (has_part && site == home) {
    say(Kind::kPart, 0, "a part on the directory's own site");
    co_return verdict;
  }
  if (has_part && there[0].state == State::kAbsent) {
    say(Kind::kNoDirectory, 0, "a part of a directory that does not exist");
    co_return verdict;
  }
  if (has_part && cell && part.directory != cell->self.cell) {
    say(Kind::kPart, 0,
        fmt::format("its part says generation {:#x}, its attribute cell {:#x}", part.directory.generation,
                    cell->self.cell.generation));
  }
  if (!has_part && names->entries > 0 && there[0].state != State::kAbsent) {
    say(Kind::kPart, -static_cast<std::int64_t>(names->entries),
        fmt::format("{} names on this site and no part cell", names->entries));
  } else if (has_part && (part.entries != names->entries || part.subdirectories != names->subdirectories)) {
    say(Kind::kPart, off_by(part.entries + part.subdirectories, names->entries + names->subdirectories),
        fmt::format("its part counts {} names and {} subdirectories, and has {} and {}", part.entries,
                    part.subdirectories, names->entries, names->subdirectories));
  }
  bool owed = names->values[1].state != State::kAbsent;
  std::uint64_t known = 0;
  if (check_stored(there_keys[1], there[1], verdict))
    known = decode_known_part(there[1].value)->subdirectories;
  if (cell && !owed && known != part.subdirectories) {
    say(Kind::kKnownPart, off_by(known, part.subdirectories),
        fmt::format("its own site knows of {} subdirectories in its part here, the part says {}", known,
                    part.subdirectories));
  }
  co_return verdict;
}

}  // namespace slice::dirserver::fsck
