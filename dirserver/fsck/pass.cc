#include "dirserver/fsck/pass.h"

#include "dirserver/fsck/keys.h"

namespace slice::dirserver::fsck {
namespace {

bool odd_name(const NameBucket& bucket, const NameEntry& entry) {
  std::string_view name = entry.name;
  return name.empty() || name.size() > nfs3::kMaxName || name == "." || name == ".." ||
         name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos ||
         bucket.find(name) != &entry;
}

// What a part, or a known part, adds to DirectoryEntry::parts or takes from it.
std::uint64_t part_print(SiteId site, std::uint64_t subdirectories) {
  std::uint64_t mix = (std::uint64_t{site.value} << 40 ^ subdirectories) * 0x9e3779b97f4a7c15ull;
  return subdirectories == 0 ? 0 : (mix ^ mix >> 31) * 0xbf58476d1ce4e5b9ull;
}

}  // namespace

KeyRange Pass::stretch(SiteId site, CellKind kind) const {
  KeyRange range = range_of(site, kind);
  std::string number(8, '\0');
  auto* at = reinterpret_cast<std::uint8_t*>(number.data());
  store_be(at, first_.value);
  std::string begin = range.begin + number;
  if (next_) {
    store_be(at, next_->value);
    range.end = range.begin + number;
  }
  range.begin = std::move(begin);
  return range;
}

void Pass::note_gaps(SiteId site, Cursor& cursor) {
  report_gaps(site, cursor.take_gaps(), seams_.report);
}

void Pass::suspect(Aspect aspect, FileId file) {
  suspect(aspect, attribute_key(home_of(file), file));
}

Task<Status> Pass::run() {
  SLICE_CO_RETURN_IF_ERROR(co_await load());
  for (std::uint32_t site = 0; site < seams_.source.sites(); ++site) {
    SLICE_CO_RETURN_IF_ERROR(co_await read_truncations(SiteId{site}));
    SLICE_CO_RETURN_IF_ERROR(co_await read_reclaims(SiteId{site}));
    SLICE_CO_RETURN_IF_ERROR(co_await read_known_parts(SiteId{site}));
  }
  for (std::uint32_t site = 0; site < seams_.source.sites(); ++site) {
    SLICE_CO_RETURN_IF_ERROR(co_await read_names(SiteId{site}));
  }
  judge();
  co_return Status{};
}

// ---- attribute cells ----

Task<Status> Pass::load() {
  for (std::uint32_t site = home_of(first_).value; site < seams_.source.sites() && !next_; ++site) {
    SLICE_CO_RETURN_IF_ERROR(co_await load_site(SiteId{site}));
  }
  co_return Status{};
}

Task<Status> Pass::load_site(SiteId site) {
  KeyRange range = range_of(site, CellKind::kAttributes);
  if (home_of(first_) == site) range = stretch(site, CellKind::kAttributes);
  Cursor cells(seams_.source, site, range);
  for (;;) {
    if (!cells.ready()) {
      auto more = co_await cells.fill();
      if (!more) co_return fail(std::move(more).error());
      note_gaps(site, cells);
      if (!*more) break;
    }
    const wire::ScanCell& cell = cells.cell();
    if (table_.bytes() >= seams_.table_bytes && good_key(cell.key) && home_of(file_of(cell.key)) == site) {
      next_ = file_of(cell.key);
      break;
    }
    take_attributes(cell);
    cells.next();
  }
  co_return co_await check_sequence(site);
}

// Behind the cells, since sequences only grow.
Task<Status> Pass::check_sequence(SiteId site) {
  auto values = co_await seams_.source.get(site, {sequence_key(site)});
  if (!values) co_return fail(std::move(values).error());
  auto next = decode_number(values->front().value);
  FileId limit{std::uint64_t{site.value} << kSequenceBits | (next ? *next : 0)};
  auto check = [&](const auto& entries) {
    for (auto at = entries.rbegin(); at != entries.rend() && home_of(at->file) == site; ++at) {
      if (at->file < limit) break;
      if (at->file != kRootId) suspect(Aspect::kCell, at->file);
    }
  };
  check(table_.files());
  check(table_.directories());
  co_return Status{};
}

void Pass::take_attributes(const wire::ScanCell& stored) {
  Totals& totals = seams_.report.totals;
  totals.attribute_bytes += stored.key.size() + stored.value.size();
  if (!good_key(stored.key)) {
    suspect(Aspect::kRecord, stored.key);
    return;
  }
  SiteId site = site_of(stored.key);
  auto cell = decode_attribute_cell(site, stored.value);
  FileId file = file_of(stored.key);
  // What is not at home would not be in order here; the names that point to it become suspects, too.
  if (!cell || cell->self.cell.fileid != file || home_of(file) != site) {
    suspect(Aspect::kCell, stored.key);
    if (!cell || cell->self.cell.fileid != file) return;
  }
  ++(cell->directory() ? totals.directories : totals.files);
  if (home_of(file) != site) return;
  table_.add(*cell);
  if (cell->directory()) seams_.tree.add(file, cell->parent.fileid);
}

// ---- records ----

Task<Status> Pass::read_truncations(SiteId site) {
  Cursor records(seams_.source, site, stretch(site, CellKind::kTruncation));
  for (;; records.next()) {
    if (!records.ready()) {
      auto more = co_await records.fill();
      if (!more) co_return fail(std::move(more).error());
      if (!*more) break;
    }
    if (!good_key(records.cell().key)) continue;  // read_records() has it
    FileId file = file_of(records.cell().key);
    FileEntry* entry = home_of(file) == site ? table_.file(file) : nullptr;
    if (entry == nullptr || !entry->truncating) suspect(Aspect::kCell, attribute_key(site, file));
    if (entry != nullptr) entry->record = true;
  }
  co_return Status{};
}

Task<Status> Pass::read_reclaims(SiteId site) {
  Cursor records(seams_.source, site, stretch(site, CellKind::kReclaim));
  for (;; records.next()) {
    if (!records.ready()) {
      auto more = co_await records.fill();
      if (!more) co_return fail(std::move(more).error());
      if (!*more) break;
    }
    if (!good_key(records.cell().key)) continue;
    FileId file = file_of(records.cell().key);
    if (table_.file(file) != nullptr || table_.directory(file) != nullptr) {
      suspect(Aspect::kCell, attribute_key(site, file));
    }
  }
  co_return Status{};
}

Task<Status> Pass::read_known_parts(SiteId site) {
  Cursor known(seams_.source, site, stretch(site, CellKind::kKnownPart));
  for (;; known.next()) {
    if (!known.ready()) {
      auto more = co_await known.fill();
      if (!more) co_return fail(std::move(more).error());
      if (!*more) break;
    }
    const wire::ScanCell& cell = known.cell();
    auto part = decode_known_part(cell.value);
    if (!part || !good_key(cell.key)) continue;  // read_records() has it
    FileId file = file_of(cell.key);
    DirectoryEntry* entry = home_of(file) == site ? table_.directory(file) : nullptr;
    if (entry == nullptr || site_in(cell.key) == site || site_in(cell.key).value >= seams_.source.sites()) {
      suspect(Aspect::kRecord, cell.key);
    }
    if (entry == nullptr) continue;
    entry->subdirectories += part->subdirectories;
    entry->parts -= part_print(site_in(cell.key), part->subdirectories);
  }
  co_return Status{};
}

// ---- names ----

Task<Status> Pass::read_names(SiteId site) {
  Cursor names(seams_.source, site, range_of(site, CellKind::kName));
  Cursor parts(seams_.source, site, stretch(site, CellKind::kPart));  // in step with the names
  std::optional<Group> group;
  for (;; names.next()) {
    bool more = names.ready();
    if (!more) {
      auto filled = co_await names.fill();
      if (!filled) co_return fail(std::move(filled).error());
      if (first_pass()) note_gaps(site, names);
      more = *filled;
    }
    bool same = more && group && good_key(names.cell().key) && file_of(names.cell().key) == group->directory;
    if (group && !same) {
      SLICE_CO_RETURN_IF_ERROR(co_await close_group(site, *group, parts));
      group.reset();
    }
    if (!more) break;
    const wire::ScanCell& cell = names.cell();
    if (first_pass()) seams_.report.totals.name_bytes += cell.key.size() + cell.value.size();
    if (!good_key(cell.key)) {
      suspect(Aspect::kRecord, cell.key);
      continue;
    }
    if (!group) group = open_group(file_of(cell.key));
    take_names(cell, *group);
  }
  co_return co_await read_parts(site, parts, std::nullopt);
}

Pass::Group Pass::open_group(FileId directory) {
  Group group{.directory = directory, .mine = mine(directory)};
  if (group.mine) group.entry = table_.directory(directory);
  return group;
}

void Pass::take_names(const wire::ScanCell& cell, Group& group) {
  auto bucket = decode_name_bucket(cell.value);
  if (!bucket || bucket->entries.empty()) {
    suspect(Aspect::kName, cell.key);
    return;
  }
  if (first_pass()) seams_.report.totals.names += bucket->entries.size();
  bool odd = group.mine && group.entry == nullptr;
  for (const NameEntry& name : bucket->entries) {
    if (group.mine) {
      ++group.entries;
      if (name.target.type == nfs3::FileType::kDirectory) ++group.subdirectories;
      odd = odd || odd_name(*bucket, name);
      if (group.entry != nullptr && !odd) {
        CellRef directory{home_of(group.directory), group.directory, group.entry->generation};
        NamePlace place = seams_.placement.place(directory, name.name);
        odd = place.site != site_of(cell.key) || place.position != position_in(cell.key) ||
              !may_be_in(group.entry->tree, name.target);
      }
    }
    if (mine(name.target.cell.fileid) && !check_target(name, group.directory)) odd = true;
  }
  if (odd) suspect(Aspect::kName, cell.key);
}

// Counts the name with what it points to. False where something is odd about that.
bool Pass::check_target(const NameEntry& name, FileId directory) {
  const Target& target = name.target;
  FileId file = target.cell.fileid;
  if (home_of(file) != target.cell.site) return false;
  if (target.type == nfs3::FileType::kDirectory) {
    DirectoryEntry* entry = table_.directory(file);
    if (entry == nullptr || entry->print != print_of(target)) return false;
    ++entry->names;
    return entry->parent == directory;
  }
  FileEntry* entry = table_.file(file);
  if (entry == nullptr || entry->print != print_of(target)) return false;
  ++entry->names;
  return true;
}

Task<Status> Pass::close_group(SiteId site, const Group& group, Cursor& parts) {
  if (!group.mine) co_return Status{};
  SLICE_CO_RETURN_IF_ERROR(co_await read_parts(site, parts, group.directory));
  bool part = parts.ready() && file_of(parts.cell().key) == group.directory;
  if (part) {
    take_part(site, parts.cell(), &group);
    parts.next();
  }
  if (group.entry == nullptr) co_return Status{};
  if (site == home_of(group.directory)) {
    group.entry->counted += group.entries;
    group.entry->subdirectories += group.subdirectories;
  } else if (!part) {
    suspect(Aspect::kPart, part_key(site, group.directory));
  }
  co_return Status{};
}

// Parts without names, up to those of a directory that has some, where the cursor stays.
Task<Status> Pass::read_parts(SiteId site, Cursor& parts, std::optional<FileId> up_to) {
  for (;; parts.next()) {
    if (!parts.ready()) {
      auto more = co_await parts.fill();
      if (!more) co_return fail(std::move(more).error());
      if (!*more) break;
    }
    if (!good_key(parts.cell().key)) continue;  // read_records() has it
    if (up_to && file_of(parts.cell().key) >= *up_to) break;
    take_part(site, parts.cell(), nullptr);
  }
  co_return Status{};
}

// `group`: the directory's names on the site; null where there are none.
void Pass::take_part(SiteId site, const wire::ScanCell& cell, const Group* group) {
  FileId file = file_of(cell.key);
  auto part = decode_part(cell.value);
  DirectoryEntry* entry = table_.directory(file);
  if (part && entry != nullptr) entry->parts += part_print(site, part->subdirectories);
  bool good = part && entry != nullptr && group != nullptr && home_of(file) != site &&
              part->directory == CellRef{home_of(file), file, entry->generation} &&
              part->entries == group->entries && part->subdirectories == group->subdirectories;
  if (!good) suspect(Aspect::kPart, cell.key);
}

// ---- what the counts come to ----

void Pass::judge() {
  for (const FileEntry& entry : table_.files()) {
    if (entry.names != entry.nlink || entry.names == 0) suspect(Aspect::kNames, entry.file);
    if (entry.truncating != entry.record) suspect(Aspect::kCell, entry.file);
  }
  for (const DirectoryEntry& entry : table_.directories()) {
    std::uint32_t names = entry.file == kRootId ? 0 : 1;
    if (entry.names != names) suspect(Aspect::kNames, entry.file);
    if (entry.counted != entry.entries || entry.nlink != 2 + entry.subdirectories) {
      suspect(Aspect::kDirectory, entry.file);
    }
    for (std::uint32_t site = 0; site < seams_.source.sites() && entry.parts != 0; ++site) {
      if (SiteId{site} != home_of(entry.file)) suspect(Aspect::kPart, part_key(SiteId{site}, entry.file));
    }
  }
}

void report_gaps(SiteId site, const std::vector<wire::ScanGap>& gaps, Report& report) {
  for (const wire::ScanGap& gap : gaps) {
    if (!report.gaps.insert(gap.begin).second) continue;
    report.add({.kind = Kind::kUnreadable,
                .site = site,
                .file = gap.begin.size() >= 13 ? file_of(gap.begin) : FileId{},
                .what = fmt::format("cells from {} to {} cannot be read: {}", key_text(gap.begin),
                                    key_text(gap.end), gap.reason)});
  }
}

}  // namespace slice::dirserver::fsck
