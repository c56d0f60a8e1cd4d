#include "dirserver/background/cuts.h"

#include "dirserver/across/back_off.h"

namespace slice::dirserver {

using NfsStatus = nfs3::Status;

namespace {

// Whether the server may yet answer otherwise: what was done is not known.
bool unsettled(NfsStatus status) {
  return status == NfsStatus::kJukebox || status == NfsStatus::kServerFault || status == NfsStatus::kIo;
}

routing::HandleBytes handle_bytes(const service::ServiceContext& context, const CutRecord& record) {
  return context.handles.mint(handle_of(record.file));
}

}  // namespace

Cuts::Cuts(service::ServiceContext& context, CellStore& cells, LockTable& held, Peers& peers,
           DuplicateCache& duplicates)
    : context_(context),
      cells_(cells),
      held_(held),
      peers_(peers),
      duplicates_(duplicates),
      begun_(context.metrics.counter("cutting_creates_total",
                                     "CREATEs that set the size of a file that exists")),
      retries_(context.metrics.counter("cutting_create_retries_total",
                                       "SETATTRs of CREATEs that set a size, which were tried again")) {}

CutRecord Cuts::make(const TransactionId& id, const rpc::Call& call, LockKey name, const AttributeCell& file,
                     std::uint64_t size) {
  CutRecord record{.id = id,
                   .call = key_of(call),
                   .client = call.client,
                   .credential = {},
                   .directory = name.file,
                   .position = name.position,
                   .file = file.self,
                   .size = size,
                   .changed = file.ctime};
  if (call.has_auth_sys) record.credential = call.credential;
  return record;
}

bool Cuts::over(const Cut& cut) const {
  return stopping_ || cells_.stays().of(cut.record.id.site) != cut.stay;
}

Task<bool> Cuts::commit(const Cut& cut, Transaction& transaction) {
  if (!co_await cells_.stays().until_open(cut.record.id.site, cut.stay)) co_return false;
  auto position = transaction.commit();
  slice::Status durable = position ? slice::Status{} : fail(std::move(position.error()));
  if (durable) durable = co_await cells_.durable(*position);
  if (!durable && log_.allow()) log_error("a CREATE of a file that exists: {}", durable.error().message);
  co_return durable.has_value();
}

Task<bool> Cuts::put(const Cut& cut) {
  Transaction transaction(cells_);
  transaction.put(cut_key(cut.record.id), encode(cut.record));
  co_return co_await commit(cut, transaction);
}

// The SETATTR, until it has been answered; nothing where this server stops before.
Task<std::optional<NfsStatus>> Cuts::set_size(const Cut& cut) {
  const CutRecord& record = cut.record;
  routing::HandleBytes handle = handle_bytes(context_, record);
  rpc::XdrWriter arguments;
  nfs3::encode_arguments(
      arguments,
      nfs3::SetattrArgs{.object = handle, .attributes = {.size = record.size}, .guard = record.changed});
  // Another call than the one it is part of, by its procedure: its server remembers it as such.
  rpc::Call call{.xid = record.call.xid,
                 .procedure = static_cast<std::uint32_t>(nfs3::Procedure::kSetattr),
                 .has_auth_sys = record.credential.has_value(),
                 .credential = record.credential.value_or(rpc::AuthSys{}),
                 .client = record.client,
                 .arguments = arguments.view()};
  for (unsigned tries = 1;; ++tries) {
    NfsStatus status = co_await peers_.setattr(call, record.file.cell.site);
    if (over(cut)) co_return std::nullopt;
    if (!unsettled(status)) co_return status;
    retries_.add();
    if (log_.allow()) {
      log_warning("a CREATE of a file that exists waits: the file's server answers {} to its SETATTR",
                  static_cast<unsigned>(status));
    }
    co_await context_.loop.sleep(back_off(tries));
    if (over(cut)) co_return std::nullopt;
  }
}

// The file's cell, as soon as it can be had; nothing where there is none, or this server stops.
Task<std::optional<AttributeCell>> Cuts::read(const Cut& cut) {
  for (unsigned tries = 1; !over(cut); ++tries) {
    auto cell = co_await peers_.read(cut.record.file.cell, false);
    if (cell) co_return std::move(*cell);
    retries_.add();
    co_await context_.loop.sleep(back_off(tries));
  }
  co_return std::nullopt;
}

Task<std::optional<std::string>> Cuts::answer(const Cut& cut, NfsStatus status) {
  const CutRecord& record = cut.record;
  co_await context_.crash.reach("cut.done");
  rpc::XdrWriter out;
  if (status == NfsStatus::kOk) {
    auto cell = co_await read(cut);
    if (over(cut)) co_return std::nullopt;
    nfs3::PostOpAttributes attributes;
    if (cell) attributes = attributes_of(*cell, context_.config.volume.id);
    routing::HandleBytes handle = handle_bytes(context_, record);
    nfs3::encode_result(
        out, nfs3::CreatedOk{
                 .object = nfs3::HandleView(handle), .attributes = std::move(attributes), .directory = {}});
  } else {
    nfs3::encode_failure(out, nfs3::Procedure::kCreate, status);
  }
  std::string reply(as_text(out.view()));
  Transaction transaction(cells_);
  transaction.erase_record(cut_key(record.id));
  if (status == NfsStatus::kOk) duplicates_.record(record.call, reply, record.id.site, transaction);
  if (!co_await commit(cut, transaction)) co_return std::nullopt;
  co_await context_.crash.reach("cut.answered");
  co_return reply;
}

Task<std::optional<std::string>> Cuts::run(CutRecord record) {
  begun_.add();
  const Stay stay = cells_.stays().of(record.id.site);
  Cut cut{std::move(record), stay};
  for (;;) {
    if (!co_await put(cut)) co_return std::nullopt;
    co_await context_.crash.reach("cut.recorded");
    auto status = co_await set_size(cut);
    if (!status) co_return std::nullopt;
    if (*status != NfsStatus::kNotSync) co_return co_await answer(cut, *status);
    // The file was changed since its cell was read: nothing is cut yet.
    auto cell = co_await read(cut);
    if (over(cut)) co_return std::nullopt;
    if (cell) cut.record.changed = cell->ctime;
  }
}

slice::Status Cuts::recover(SiteId site) {
  KeyRange range = range_of(site, CellKind::kCut);
  auto at = cells_.store().iterate(range.begin, range.end);
  for (; at->valid(); at->next()) {
    auto record = decode_cut(at->value());
    if (!record) return fail(std::move(record.error()));
    held_.take({record->id, LockTable::kOldest}, {record->directory, record->position}, LockMode::kExclusive);
    // In progress from now on: retransmissions of the CREATE wait for this.
    duplicates_.begin(record->call, site);
    spawn(finish_recovered({std::move(*record), cells_.stays().of(site)}));
  }
  return at->status();
}

Task<void> Cuts::finish_recovered(Cut cut) {
  auto status = co_await set_size(cut);
  std::optional<std::string> reply;
  // Changed since: by this call's own cut, if its server has forgotten that, or by others. A client that
  // still wants it sends it again.
  if (status && *status != NfsStatus::kNotSync) {
    reply = co_await answer(cut, *status);
  } else if (status) {
    Transaction transaction(cells_);
    transaction.erase_record(cut_key(cut.record.id));
    co_await commit(cut, transaction);
  }
  if (stopping_) co_return;
  // The site may have come back: then another one goes on with it, and has these.
  if (over(cut) && cells_.stays().here(cut.record.id.site)) co_return;
  held_.release(cut.record.id);
  duplicates_.finish(cut.record.call, reply.value_or(""));
}

}  // namespace slice::dirserver
