#include "coordinator/block_maps.h"

#include <algorithm>
#include <limits>

#include "wire/listed_site.h"

namespace slice::coordinator {
namespace {

constexpr std::uint8_t kVersion = 2, kNarrow = 1;  // of before servers could be listed: sites of 2 bytes
constexpr std::size_t kRecordSize = 1 + 4 * wire::kStripesOfPiece,
                      kNarrowSize = 1 + 2 * wire::kStripesOfPiece;
constexpr std::size_t kErasedAtOnce = 4096;
constexpr std::size_t kKeySize = 16;
constexpr std::string_view kFormerVersion = "version";  // a key
// A thousand a second for 35 years.
constexpr std::uint64_t kVersionsOfARun = std::uint64_t{1} << 40;
constexpr Duration kBreath = std::chrono::microseconds(100);  // between two pages, for others
const std::string kBegin, kEnd(kKeySize + 1, '\xff');         // of all keys

FileId file_of(std::string_view key) {
  return FileId{load_be<std::uint64_t>(as_bytes(key).data())};
}
std::uint64_t number_of(std::string_view key) {
  return load_be<std::uint64_t>(as_bytes(key).data() + 8);
}

}  // namespace

std::string piece_key(FileId file, std::uint64_t number) {
  std::string key(kKeySize, '\0');
  auto* at = reinterpret_cast<std::uint8_t*>(key.data());
  store_be(at, file.value);
  store_be(at + 8, number);
  return key;
}

std::string encode_piece_record(const wire::MapPiece& piece) {
  std::string record(kRecordSize, '\0');
  auto* at = reinterpret_cast<std::uint8_t*>(record.data());
  *at++ = kVersion;
  for (std::uint32_t site : piece.sites) {
    store_be(at, site);
    at += sizeof site;
  }
  return record;
}

Result<std::vector<std::uint32_t>> decode_piece_record(std::string_view record) {
  const std::uint8_t version = record.empty() ? 0 : static_cast<std::uint8_t>(record[0]);
  const bool narrow = version == kNarrow && record.size() == kNarrowSize;
  bool good = narrow || (version == kVersion && record.size() == kRecordSize);
  std::vector<std::uint32_t> sites(good ? wire::kStripesOfPiece : 0);
  const auto* at = reinterpret_cast<const std::uint8_t*>(record.data()) + 1;
  for (std::uint32_t& site : sites) {
    site = narrow ? load_be<std::uint16_t>(at) : load_be<std::uint32_t>(at);
    at += narrow ? sizeof(std::uint16_t) : sizeof site;
    good = good && wire::is_good_site(site);
  }
  if (!good) return fail(Errc::kCorrupt, "a piece of a block map of {} bytes is malformed", record.size());
  return sites;
}

Result<wire::MapPiece> stored_piece(const storage::KvReader& store, FileId file, std::uint64_t number) {
  wire::MapPiece piece{.number = number, .sites = {}};
  auto record = store.get(piece_key(file, number));
  if (!record) return fail(std::move(record).error());
  if (!*record) return piece;
  auto sites = decode_piece_record(**record);
  if (!sites) return fail(std::move(sites).error());
  piece.sites = std::move(*sites);
  return piece;
}

BlockMaps::BlockMaps(service::ServiceContext& context, std::unique_ptr<storage::KvStore> store)
    : context_(context),
      store_(std::move(store)),
      put_(context.metrics.counter("coordinator_map_pieces_put_total", "pieces of block maps made durable")),
      failures_(context.metrics.counter("coordinator_map_failures_total",
                                        "pieces of block maps that could not be read or written")) {}

Result<wire::MapPiece> BlockMaps::piece(FileId file, std::uint64_t number) const {
  auto old = old_.find({file, number});
  if (old != old_.end()) return old->second;
  auto piece = latest(file, number);
  if (!piece) note_failure(file, piece.error());
  return piece;
}

void BlockMaps::note_failure(FileId file, const Error& error) const {
  failures_.add();
  if (log_.allow()) log_error("block map of file {:#x} fails reason={}", file.value, error.message);
}

Task<Status> BlockMaps::put(FileId file, wire::MapPiece piece) {
  auto old = latest(file, piece.number);
  if (!old) {
    note_failure(file, old.error());
    co_return fail(std::move(old).error());
  }
  storage::WriteBatch batch;
  batch.put(piece_key(file, piece.number), encode_piece_record(piece));
  auto position = store_->apply(batch);
  if (!position) {
    note_failure(file, position.error());
    co_return fail(std::move(position).error());
  }
  old_[{file, piece.number}] = std::move(*old);
  if (changed_) changed_(file, piece.number);
  Status durable = co_await store_->durable(*position);
  // Whether it is there after a start is not known where this failed; the store takes no change any more.
  if (!durable) {
    note_failure(file, durable.error());
    co_return durable;
  }
  old_.erase({file, piece.number});
  put_.add();
  co_return Status{};
}

Task<Status> BlockMaps::forget(FileId file) {
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  storage::LogPosition last;
  for (;;) {
    storage::WriteBatch batch;
    auto at = store_->iterate(piece_key(file, 0), piece_key(file, kLast));
    for (at->seek(piece_key(file, 0)); at->valid() && batch.changes().size() < kErasedAtOnce; at->next()) {
      batch.erase(std::string(at->key()));
    }
    SLICE_CO_RETURN_IF_ERROR(at->status());
    if (batch.empty()) break;
    auto position = store_->apply(batch);
    if (!position) co_return fail(std::move(position).error());
    last = *position;
    for (const auto& change : batch.changes()) {
      if (changed_) changed_(file, number_of(change.key));
    }
  }
  if (last.value == 0) co_return Status{};
  co_return co_await store_->durable(last);
}

// ---- for moves of sites ----

Result<BlockMaps::Page> BlockMaps::list(const std::string& after, std::size_t limit,
                                        const Which& wanted) const {
  Page page{.pieces = {}, .last = after};
  auto at = store_->iterate(kBegin, kEnd);
  at->seek(after);
  if (at->valid() && at->key() == after) at->next();
  for (std::size_t seen = 0; at->valid() && seen < limit; at->next(), ++seen) {
    page.last = std::string(at->key());
    if (page.last.size() != kKeySize || !wanted(file_of(page.last))) continue;
    auto sites = decode_piece_record(at->value());
    if (!sites) return fail(std::move(sites).error());
    page.pieces.push_back({file_of(page.last), {.number = number_of(page.last), .sites = std::move(*sites)}});
  }
  if (Status status = at->status(); !status) return fail(std::move(status).error());
  page.end = !at->valid();
  return page;
}

Status BlockMaps::receive(const std::vector<wire::MovedPiece>& pieces, std::uint64_t version) {
  storage::WriteBatch batch;
  for (const wire::MovedPiece& each : pieces) {
    if (each.piece.sites.empty()) {
      batch.erase(piece_key(each.file, each.piece.number));
    } else {
      batch.put(piece_key(each.file, each.piece.number), encode_piece_record(each.piece));
    }
  }
  if (version > 0) SLICE_RETURN_IF_ERROR(keep_version(version, batch));
  if (batch.empty()) return {};
  auto position = store_->apply(batch);
  if (!position) return fail(std::move(position).error());
  received_ = *position;
  return {};
}

Task<Status> BlockMaps::erase(Which which) {
  storage::LogPosition last;
  std::string after;
  for (bool end = false; !end;) {
    auto page = list(after, kErasedAtOnce, which);
    if (!page) co_return fail(std::move(page).error());
    end = page->end;
    after = page->last;
    storage::WriteBatch batch;
    for (const wire::MovedPiece& each : page->pieces) batch.erase(piece_key(each.file, each.piece.number));
    if (!batch.empty()) {
      auto position = store_->apply(batch);
      if (!position) co_return fail(std::move(position).error());
      last = *position;
    }
    if (!end) co_await context_.loop.sleep(kBreath);
  }
  if (last.value == 0) co_return Status{};
  co_return co_await store_->durable(last);
}

Task<Status> BlockMaps::sync() {
  if (received_.value == 0) co_return Status{};
  co_return co_await store_->durable(received_);
}

bool BlockMaps::in_doubt(const Which& which) const {
  return std::any_of(old_.begin(), old_.end(), [&](const auto& each) { return which(each.first.first); });
}

// With those that follow it until the next start.
Status BlockMaps::keep_version(std::uint64_t version, storage::WriteBatch& batch) const {
  auto before = former_version();
  if (!before) return fail(std::move(before).error());
  std::string record(sizeof version, '\0');
  store_be(reinterpret_cast<std::uint8_t*>(record.data()), std::max(version + kVersionsOfARun, *before));
  batch.put(std::string(kFormerVersion), std::move(record));
  return {};
}

Task<Status> BlockMaps::begin_versions(std::uint64_t first) {
  storage::WriteBatch batch;
  SLICE_CO_RETURN_IF_ERROR(keep_version(first, batch));
  auto position = store_->apply(batch);
  if (!position) co_return fail(std::move(position).error());
  co_return co_await store_->durable(*position);
}

Result<std::uint64_t> BlockMaps::former_version() const {
  auto record = store_->get(kFormerVersion);
  if (!record) return fail(std::move(record).error());
  if (!*record) return std::uint64_t{0};
  if ((*record)->size() != sizeof(std::uint64_t))
    return fail(Errc::kCorrupt, "the version of former owners' layouts is malformed");
  return load_be<std::uint64_t>(as_bytes(**record).data());
}

}  // namespace slice::coordinator
