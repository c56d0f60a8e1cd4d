#include "dirserver/fsck/examine.h"

#include <array>
#include <set>

#include "dirserver/fsck/keys.h"

namespace slice::dirserver::fsck {

using State = wire::ScanValue::State;

Task<Result<Verdict>> Examiner::examine(Suspect suspect) {
  switch (suspect.aspect) {
    case Aspect::kRoot:
      return root();
    case Aspect::kCell:
      return cell(std::move(suspect.key));
    case Aspect::kName:
      return name(std::move(suspect.key));
    case Aspect::kDirectory:
      return directory(std::move(suspect.key));
    case Aspect::kPart:
      return part(std::move(suspect.key));
    case Aspect::kCycle:
      return cycle(std::move(suspect.key));
    case Aspect::kNames:  // examine_names()
    case Aspect::kRecord:
      break;
  }
  return record(std::move(suspect.key));
}

Task<Result<wire::ScanValue>> Examiner::get(SiteId site, std::string key) {
  auto values = co_await source_.get(site, {std::move(key)});
  if (!values) co_return fail(std::move(values).error());
  co_return std::move(values->front());
}

Task<Result<wire::ScanValue>> Examiner::attributes(SiteId site, FileId file) {
  if (!has_site(site)) co_return wire::ScanValue{};
  co_return co_await get(site, attribute_key(site, file));
}

Task<Result<Verdict>> Examiner::root() {
  auto value = co_await attributes(kRootSite, kRootId);
  if (!value) co_return fail(std::move(value).error());
  Verdict verdict;
  std::string key = attribute_key(kRootSite, kRootId);
  auto cell = decode_attributes(key, *value, verdict);
  if (cell ? !cell->directory() : verdict.findings.empty()) {
    verdict.findings.push_back({.kind = Kind::kRoot,
                                .site = kRootSite,
                                .file = kRootId,
                                .what = cell ? "the root is no directory" : "there is no root directory"});
  }
  co_return verdict;
}

// Walks up until the root, a parent that is not there (which is another finding), or where it has been.
Task<Result<Verdict>> Examiner::cycle(std::string key) {
  FileId start = file_of(key);
  std::set<FileId> seen;
  for (FileId at = start; at != kRootId;) {
    if (!seen.insert(at).second) {
      if (at != start) co_return Verdict{};
      Verdict verdict;
      verdict.findings.push_back(
          {.kind = Kind::kCycle,
           .site = home_of(start),
           .file = start,
           .what = fmt::format("a ring of {} director{}: each is below itself and the root leads to none",
                               seen.size(), seen.size() == 1 ? "y" : "ies")});
      co_return verdict;
    }
    auto value = co_await attributes(home_of(at), at);
    if (!value) co_return fail(std::move(value).error());
    Verdict ignored;
    auto cell = decode_attributes(attribute_key(home_of(at), at), *value, ignored);
    if (!cell || !cell->directory()) co_return Verdict{};
    at = cell->parent.fileid;
  }
  co_return Verdict{};
}

bool check_stored(std::string_view key, const wire::ScanValue& value, Verdict& verdict) {
  if (value.state == State::kAbsent) return false;
  FileId file{key.size() >= 13 ? first_number(key) : 0};
  if (value.state == State::kUnreadable) {
    verdict.findings.push_back({.kind = Kind::kUnreadable,
                                .site = site_of(key),
                                .file = file,
                                .what = fmt::format("{}: {}", key_text(key), value.value)});
    return false;
  }
  Status good = check_value(key, value.value);
  if (good) return true;
  verdict.findings.push_back({.kind = Kind::kCorrupt,
                              .site = site_of(key),
                              .file = file,
                              .what = fmt::format("{}: {}", key_text(key), good.error().message)});
  return false;
}

std::optional<AttributeCell> decode_attributes(std::string_view key, const wire::ScanValue& value,
                                               Verdict& verdict) {
  if (!check_stored(key, value, verdict)) return std::nullopt;
  return std::move(*decode_attribute_cell(site_of(key), value.value));
}

std::string_view type_text(nfs3::FileType type) {
  constexpr std::array<std::string_view, 8> kNames{
      "?", "file", "directory", "block device", "character device", "symbolic link", "socket", "fifo"};
  auto index = static_cast<std::size_t>(type);
  return index < kNames.size() ? kNames[index] : "?";
}

}  // namespace slice::dirserver::fsck
