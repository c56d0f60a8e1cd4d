// One attribute cell by itself: its fileID, and the records of the file.
#include "dirserver/fsck/examine.h"
#include "dirserver/fsck/keys.h"

namespace slice::dirserver::fsck {
namespace {

using State = wire::ScanValue::State;

Finding about_cell(Kind kind, std::string_view key, std::string what) {
  return {.kind = kind, .site = site_of(key), .file = file_of(key), .what = std::move(what)};
}

void check_truncation(std::string_view key, const std::optional<AttributeCell>& cell, bool cell_there,
                      std::string_view record_key, const wire::ScanValue& stored, Verdict& verdict) {
  if (stored.state == State::kAbsent) {
    if (cell && cell->truncating) {
      verdict.findings.push_back(about_cell(
          Kind::kTruncation, key, "it is marked as being truncated, and no truncation record says how far"));
    }
    return;
  }
  if (!check_stored(record_key, stored, verdict)) return;
  TruncationRecord record = std::move(*decode_truncation(stored.value));
  std::string_view wrong;
  if (!cell_there) {
    wrong = "a truncation record of a file that does not exist";
  } else if (cell && !cell->truncating) {
    wrong = "a truncation record of a file that is not being truncated";
  } else if (cell && record.file != cell->self) {
    wrong = "its truncation record is of another generation";
  }
  if (!wrong.empty()) verdict.findings.push_back(about_cell(Kind::kTruncation, key, std::string(wrong)));
}

}  // namespace

Task<Result<Verdict>> Examiner::cell(std::string key) {
  SiteId site = site_of(key);
  FileId file = file_of(key);
  std::vector<std::string> keys{key, truncation_key(site, file), reclaim_key(site, file), sequence_key(site)};
  auto values = co_await source_.get(site, keys);
  if (!values) co_return fail(std::move(values).error());
  Verdict verdict;
  auto cell = decode_attributes(key, values->at(0), verdict);
  check_truncation(key, cell, values->at(0).state != State::kAbsent, keys[1], values->at(1), verdict);
  if (check_stored(keys[2], values->at(2), verdict) && cell) {
    verdict.findings.push_back(
        about_cell(Kind::kReclaim, key, "its bytes are to be freed, but it has an attribute cell"));
  }
  if (!cell) co_return verdict;
  SLICE_CO_RETURN_IF_ERROR(co_await check_fileid(*cell, key, values->at(3), verdict));
  co_return verdict;
}

Task<Status> Examiner::check_fileid(const AttributeCell& cell, std::string_view key,
                                    const wire::ScanValue& sequence, Verdict& verdict) {
  SiteId site = site_of(key);
  FileId file = file_of(key);
  if (cell.self.cell.fileid != file) {
    verdict.findings.push_back(
        about_cell(Kind::kCorrupt, key,
                   fmt::format("its attribute cell is that of {:#x}", cell.self.cell.fileid.value)));
  }
  if (home_of(file) != site) {
    verdict.findings.push_back(
        about_cell(Kind::kSequence, key, fmt::format("its fileID is one of site {}", home_of(file).value)));
    auto other = co_await attributes(home_of(file), file);
    if (!other) co_return fail(std::move(other).error());
    if (other->state != State::kAbsent) {
      verdict.findings.push_back(about_cell(
          Kind::kDuplicate, key, fmt::format("site {} has this fileID as well", home_of(file).value)));
    }
    co_return Status{};
  }
  if (file == kRootId ||
      !(sequence.state == State::kAbsent || check_stored(sequence_key(site), sequence, verdict))) {
    co_return Status{};
  }
  std::uint64_t next = sequence.state == State::kAbsent ? 0 : *decode_number(sequence.value);
  std::uint64_t number = file.value & ((std::uint64_t{1} << kSequenceBits) - 1);
  if (number >= next) {
    verdict.findings.push_back(about_cell(
        Kind::kSequence, key,
        fmt::format("the site's sequence of fileIDs is at {:#x} only: it would be given out again", next)));
  }
  co_return Status{};
}

}  // namespace slice::dirserver::fsck
