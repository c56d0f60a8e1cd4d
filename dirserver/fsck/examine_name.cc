// One name cell: each of its names against its directory, its place and its target.
#include "dirserver/fsck/examine.h"
#include "dirserver/fsck/keys.h"
#include "dirserver/fsck/table.h"

namespace slice::dirserver::fsck {
namespace {

using State = wire::ScanValue::State;

Finding about_name(Kind kind, std::string_view key, const NameEntry& entry, std::string what) {
  return {.kind = kind,
          .site = site_of(key),
          .file = file_of(key),
          .name = entry.name,
          .what = std::move(what),
          .other = entry.target.cell.fileid};
}

bool bad_name(std::string_view name) {
  return name.empty() || name.size() > nfs3::kMaxName || name == "." || name == ".." ||
         name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos;
}

std::string difference(const Target& named, const Target& cell) {
  auto differ = [](std::string_view what, auto a, auto b) {
    return fmt::format("{} {:#x}, but the attribute cell says {:#x}", what, a, b);
  };
  if (named.cell.generation != cell.cell.generation) {
    return differ("generation", named.cell.generation, cell.cell.generation);
  }
  if (named.type != cell.type) {
    return fmt::format("it says {}, but the attribute cell says {}", type_text(named.type),
                       type_text(cell.type));
  }
  if (named.flags != cell.flags) return differ("flags", named.flags, cell.flags);
  if (named.stripe_shift != cell.stripe_shift) {
    return differ("stripe shift", named.stripe_shift, cell.stripe_shift);
  }
  if (named.tree != cell.tree) return differ("tree", named.tree.value, cell.tree.value);
  return differ("cell key", named.cell_key, cell.cell_key);
}

}  // namespace

Task<Result<Verdict>> Examiner::name(std::string key) {
  FileId directory = file_of(key);
  SiteId site = site_of(key);
  auto stored = co_await get(site, key);
  if (!stored) co_return fail(std::move(stored).error());
  Verdict verdict;
  if (!check_stored(key, *stored, verdict)) co_return verdict;
  NameBucket bucket = std::move(*decode_name_bucket(stored->value));
  if (bucket.entries.empty()) {
    verdict.findings.push_back({.kind = Kind::kCorrupt,
                                .site = site,
                                .file = directory,
                                .what = fmt::format("{}: a name cell without names", key_text(key))});
  }
  auto above = co_await attributes(home_of(directory), directory);
  if (!above) co_return fail(std::move(above).error());
  Verdict of_directory;  // said of the directory, once, and not of every name
  auto cell = decode_attributes(attribute_key(home_of(directory), directory), *above, of_directory);
  for (const NameEntry& entry : bucket.entries) {
    if (above->state == State::kAbsent) {
      verdict.findings.push_back(about_name(Kind::kNoDirectory, key, entry, "its directory does not exist"));
    } else if (cell && !cell->directory()) {
      verdict.findings.push_back(about_name(Kind::kNoDirectory, key, entry,
                                            fmt::format("it is in a {}", type_text(cell->self.type))));
    } else if (cell) {
      check_placement(entry, key, cell->self.cell, verdict);
      if (!may_be_in(cell->self.tree, entry.target)) {
        verdict.findings.push_back(about_name(Kind::kTree, key, entry,
                                              fmt::format("it is of tree {}, in a directory of tree {}",
                                                          entry.target.tree.value, cell->self.tree.value)));
      }
    }
    if (bad_name(entry.name) || bucket.find(entry.name) != &entry) {
      verdict.findings.push_back(about_name(
          Kind::kBadName, key, entry, bad_name(entry.name) ? "no name can be this" : "it is there twice"));
    }
    auto target = co_await attributes(entry.target.cell.site, entry.target.cell.fileid);
    if (!target) co_return fail(std::move(target).error());
    check_target(entry, key, *target, verdict);
  }
  if (source_.live() && !verdict.findings.empty()) {
    auto again = co_await get(site, key);
    if (!again) co_return fail(std::move(again).error());
    verdict.settled = *again == *stored;
  }
  co_return verdict;
}

void Examiner::check_placement(const NameEntry& entry, std::string_view key, const CellRef& directory,
                               Verdict& verdict) const {
  NamePlace place = placement_.place(directory, entry.name);
  if (place.site != site_of(key)) {
    verdict.findings.push_back(about_name(
        Kind::kMisplaced, key, entry, fmt::format("its site is {}: no look-up finds it", place.site.value)));
  } else if (place.position != position_in(key)) {
    verdict.findings.push_back(about_name(Kind::kMisplaced, key, entry,
                                          fmt::format("its position is {:#x}, not {:#x}: no look-up finds it",
                                                      place.position.value, position_in(key).value)));
  }
}

void Examiner::check_target(const NameEntry& entry, std::string_view key, const wire::ScanValue& cell,
                            Verdict& verdict) {
  const Target& named = entry.target;
  std::string file = fmt::format("{:#x} on site {}", named.cell.fileid.value, named.cell.site.value);
  if (cell.state == State::kAbsent) {
    verdict.findings.push_back(about_name(
        Kind::kDangling, key, entry,
        fmt::format("it points to {} {}, which has no attribute cell", type_text(named.type), file)));
    return;
  }
  auto there = decode_attributes(attribute_key(named.cell.site, named.cell.fileid), cell, verdict);
  if (!there) return;
  if (there->self != named) {
    verdict.findings.push_back(
        about_name(Kind::kWrongTarget, key, entry,
                   fmt::format("it points to {}: {}", file, difference(named, there->self))));
    return;
  }
  if (there->directory() && there->parent.fileid != file_of(key)) {
    verdict.findings.push_back(about_name(
        Kind::kParent, key, entry,
        fmt::format("it points to directory {}, whose \"..\" is {:#x}", file, there->parent.fileid.value)));
  }
}

}  // namespace slice::dirserver::fsck
