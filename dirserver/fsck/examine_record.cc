// Records of what is under way between sites, and the values of all others.
#include <algorithm>

#include "dirserver/cells/steps.h"
#include "dirserver/fsck/examine.h"
#include "dirserver/fsck/keys.h"

namespace slice::dirserver::fsck {
namespace {

using State = wire::ScanValue::State;

// Of the site alone: a transaction is of no one file.
Finding about_record(Kind kind, std::string_view key, std::string what) {
  return {.kind = kind, .site = site_of(key), .what = std::move(what)};
}

std::string text_of(const TransactionId& id) {
  return fmt::format("change {:016x}/{} of site {}", id.incarnation, id.sequence, id.site.value);
}

bool lists(const IntentionRecord& intention, SiteId site) {
  return std::find(intention.participants.begin(), intention.participants.end(), site) !=
         intention.participants.end();
}

}  // namespace

Task<Result<Verdict>> Examiner::record(std::string key) {
  auto value = co_await get(site_of(key), key);
  if (!value) co_return fail(std::move(value).error());
  Verdict verdict;
  if (!check_stored(key, *value, verdict) || !good_key(key)) co_return verdict;
  Status read;
  switch (kind_of(key)) {
    case CellKind::kKnownPart:
      read = co_await known_part(key, verdict);
      break;
    case CellKind::kClientLocks:
      read = co_await client_locks(key, verdict);
      break;
    case CellKind::kIntention:
      read = co_await intention(key, value->value, verdict);
      break;
    case CellKind::kPrepared:
      read = co_await prepared(key, value->value, verdict);
      break;
    case CellKind::kOwedTouch:
      verdict.findings.push_back({.kind = Kind::kUnfinished,
                                  .site = site_of(key),
                                  .file = file_of(key),
                                  .what = "the directory's own site has still to be told of a change"});
      break;
    default:
      break;
  }
  if (!read) co_return fail(std::move(read).error());
  co_return verdict;
}

Task<Status> Examiner::known_part(std::string_view key, Verdict& verdict) {
  FileId file = file_of(key);
  SiteId site = site_of(key);
  SiteId part = site_in(key);
  auto cell = co_await attributes(site, file);
  if (!cell) co_return fail(std::move(cell).error());
  Verdict unsaid;  // other aspects of it say it
  auto directory = decode_attributes(attribute_key(site, file), *cell, unsaid);
  std::string wrong;
  if (cell->state == State::kAbsent || (directory && !directory->directory())) {
    wrong = fmt::format("a known part on site {} of a directory that does not exist here", part.value);
  } else if (part == site || !has_site(part)) {
    wrong = fmt::format("a known part on site {}, where none can be", part.value);
  }
  if (!wrong.empty()) {
    verdict.findings.push_back(
        {.kind = Kind::kKnownPart, .site = site, .file = file, .what = std::move(wrong)});
  }
  co_return Status{};
}

// They go with their file, in one batch.
Task<Status> Examiner::client_locks(std::string_view key, Verdict& verdict) {
  const FileId file = file_of(key);
  auto cell = co_await attributes(site_of(key), file);
  if (!cell) co_return fail(std::move(cell).error());
  Verdict unsaid;  // other aspects of it say it
  auto decoded = decode_attributes(attribute_key(site_of(key), file), *cell, unsaid);
  if (cell->state == State::kAbsent || (decoded && !decoded->regular())) {
    verdict.findings.push_back(
        {.kind = Kind::kLocks, .site = site_of(key), .file = file, .what = "locks of what is no file here"});
  }
  co_return Status{};
}

Task<Status> Examiner::intention(std::string_view key, std::string_view value, Verdict& verdict) {
  IntentionRecord intention = std::move(*decode_intention(value));
  if (intention_key(intention.id) != key) {
    verdict.findings.push_back(about_record(
        Kind::kIntention, key, fmt::format("{}: it is that of {}", key_text(key), text_of(intention.id))));
    co_return Status{};
  }
  std::size_t waiting = 0;
  for (SiteId site : intention.participants) {
    if (!has_site(site)) {
      verdict.findings.push_back(
          about_record(Kind::kIntention, key,
                       fmt::format("{}: site {} is to carry it out, which there is not",
                                   text_of(intention.id), site.value)));
      co_return Status{};
    }
    auto prepared = co_await get(site, prepared_key(site, intention.id));
    if (!prepared) co_return fail(std::move(prepared).error());
    if (prepared->state != State::kAbsent) ++waiting;
  }
  verdict.findings.push_back(
      about_record(Kind::kUnfinished, key,
                   fmt::format("{} is decided; {} of {} sites have still to carry it out",
                               text_of(intention.id), waiting, intention.participants.size())));
  co_return Status{};
}

Task<Status> Examiner::prepared(std::string_view key, std::string_view value, Verdict& verdict) {
  PreparedRecord prepared = std::move(*decode_prepared(site_of(key), value));
  const TransactionId& id = prepared.id;
  if (prepared_key(site_of(key), id) != key || !has_site(id.site)) {
    verdict.findings.push_back(
        about_record(Kind::kIntention, key, fmt::format("{}: it is that of {}", key_text(key), text_of(id))));
    co_return Status{};
  }
  auto stored = co_await get(id.site, intention_key(id));
  if (!stored) co_return fail(std::move(stored).error());
  if (stored->state == State::kAbsent) {
    verdict.findings.push_back(about_record(
        Kind::kUnfinished, key,
        fmt::format("{} is prepared and not decided: it is taken back, unless it is still under way",
                    text_of(id))));
    co_return Status{};
  }
  Verdict unsaid;  // the intention's own record says it
  if (!check_stored(intention_key(id), *stored, unsaid)) co_return Status{};
  if (lists(*decode_intention(stored->value), site_of(key))) {
    verdict.findings.push_back(about_record(
        Kind::kUnfinished, key, fmt::format("{} is decided and not carried out here yet", text_of(id))));
  } else {
    verdict.findings.push_back(
        about_record(Kind::kIntention, key,
                     fmt::format("{} is prepared here, but its intention does not name this site: it is lost",
                                 text_of(id))));
  }
  co_return Status{};
}

}  // namespace slice::dirserver::fsck
