#include "dirserver/background/truncations.h"

#include "dirserver/across/back_off.h"

namespace slice::dirserver {

Truncations::Truncations(service::ServiceContext& context, CellStore& cells, service::FileLocks& locks,
                         LockTable& held, DataServers& servers, DuplicateCache& duplicates)
    : context_(context),
      cells_(cells),
      locks_(locks),
      held_(held),
      servers_(servers),
      duplicates_(duplicates),
      begun_(context.metrics.counter("truncations_total", "size changes driven over the data servers")),
      retries_(context.metrics.counter("truncation_retries_total",
                                       "attempts at size changes that failed and are made again")),
      under_way_(context.metrics.gauge("truncations_under_way", "size changes under way")) {}

TruncationRecord Truncations::begin(Transaction& transaction, AttributeCell& cell, const CallKey& call,
                                    const nfs3::WccAttributes& before) {
  begun_.add();
  cell.truncating = true;
  transaction.change(cell);
  TruncationRecord record{.file = cell.self,
                          .size = cell.size,
                          .epoch = cell.epoch,
                          .striped = cell.striped,
                          .call = call,
                          .before = before,
                          .changed = cell.ctime};
  const CellRef& ref = cell.self.cell;
  transaction.put(truncation_key(ref.site, ref.fileid), encode(record));
  return record;
}

Task<bool> Truncations::carry_out(TruncationRecord record) {
  under_way_.add();
  const Stay stay = cells_.stays().of(record.file.cell.site);
  auto over = [&] { return stopping_ || cells_.stays().of(record.file.cell.site) != stay; };
  for (unsigned tries = 1;; ++tries) {
    Status status = co_await servers_.truncate(record);
    if (status || over()) break;
    retries_.add();
    if (log_.allow()) log_warning("truncation waits: {}", status.error().message);
    co_await context_.loop.sleep(back_off(tries));
    if (over()) break;
    auto cell = cells_.attributes(record.file.cell);
    if (cell && *cell == nullptr) break;  // removed: its bytes go anyway
  }
  under_way_.add(~std::uint64_t{0});
  co_return !over();
}

Result<AttributeCell*> Truncations::end(Transaction& transaction, const TruncationRecord& record) {
  auto cell = transaction.load(record.file.cell);
  if (!cell) return cell;
  transaction.erase_record(truncation_key(record.file.cell.site, record.file.cell.fileid));
  if (*cell != nullptr) {
    (*cell)->truncating = false;
    transaction.change(**cell);
  }
  return cell;
}

std::string truncated_reply(const TruncationRecord& record, const AttributeCell* cell, VolumeId volume) {
  nfs3::WccData wcc;
  if (cell != nullptr) {
    if (cell->ctime == record.changed) wcc.before = record.before;
    wcc.after = attributes_of(*cell, volume);
  }
  rpc::XdrWriter out;
  nfs3::encode_result(out, nfs3::Status::kOk, wcc);
  return std::string(as_text(out.view()));
}

Status Truncations::recover(SiteId site) {
  KeyRange range = range_of(site, CellKind::kTruncation);
  auto at = cells_.store().iterate(range.begin, range.end);
  for (; at->valid(); at->next()) {
    auto record = decode_truncation(at->value());
    if (!record) return fail(std::move(record.error()));
    // In progress from now on: retransmissions of the SETATTR wait for this, as they would have before.
    duplicates_.begin(record->call, site);
    spawn(finish_recovered(*record, cells_.stays().of(site)));
  }
  return at->status();
}

Task<void> Truncations::finish_recovered(TruncationRecord record, Stay stay) {
  auto lock = co_await locks_.lock(record.file.cell.fileid);
  bool goes_on = co_await carry_out(record);
  if (goes_on) co_await held_.until_free(record.file.cell.fileid);
  if (goes_on) goes_on = co_await cells_.stays().until_open(record.file.cell.site, stay);
  if (!goes_on) {
    // Where the site has come back, another one goes on with it, and has the call.
    if (!stopping_ && !cells_.stays().here(record.file.cell.site)) duplicates_.finish(record.call, "");
    co_return;
  }
  Transaction transaction(cells_);
  auto cell = end(transaction, record);
  std::string reply;
  if (cell) {
    reply = truncated_reply(record, *cell, context_.config.volume.id);
    duplicates_.record(record.call, reply, record.file.cell.site, transaction);
  }
  auto position = cell ? transaction.commit() : Result<storage::LogPosition>(fail(std::move(cell.error())));
  if (position) {
    if (Status durable = co_await cells_.durable(*position); !durable) reply.clear();
  } else {
    log_error("a truncation was carried out, but its record stays until the next start: {}",
              position.error().message);
    reply.clear();
  }
  duplicates_.finish(record.call, reply);
}

}  // namespace slice::dirserver
