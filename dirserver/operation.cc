#include "dirserver/operation.h"

#include <algorithm>

namespace slice::dirserver {

using nfs3::Status;

tl::unexpected<Status> refuse(const Error& error) {
  static LogLimiter limiter(5);
  bool worth_a_line = error.code == Errc::kIo || error.code == Errc::kCorrupt;
  if (worth_a_line && limiter.allow()) log_error("{}: {}", errc_name(error.code), error.message);
  return refuse(nfs3::status_of(error));
}

Status check_name(std::string_view name) {
  if (name.size() > nfs3::kMaxName) return Status::kNameTooLong;
  if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos) return Status::kInval;
  return Status::kOk;
}

bool dot_or_dot_dot(std::string_view name) {
  return name == "." || name == "..";
}

bool may(const Identity& who, const AttributeCell& cell, unsigned wanted) {
  return service::may(who, attributes_of(cell, VolumeId{}), wanted);
}

bool sticky_keeps(const Identity& who, const AttributeCell& directory, const AttributeCell& cell) {
  constexpr std::uint32_t sticky = 01000;
  return (directory.mode & sticky) != 0 && !who.superuser() && who.uid != cell.uid &&
         who.uid != directory.uid;
}

Answer<const AttributeCell*> read_object(Volume& volume, const routing::FileHandle& handle,
                                         storage::LogPosition& shown) {
  shown = std::max(shown, volume.cells.pending(handle.fileid));
  auto cell = volume.cells.attributes(cell_of(handle));
  if (!cell) return refuse(cell.error());
  if (*cell == nullptr || (*cell)->self.type != handle.type) return refuse(Status::kStale);
  return *cell;
}

Task<NfsAnswer> answer_shown(Volume& volume, NfsRequest& request, storage::LogPosition shown, Status status) {
  if (shown > volume.cells.durable_position()) {
    auto durable = co_await volume.cells.durable(shown);
    if (!durable) {
      request.attributes.reset();  // what they say may never come to be
      request.wcc = {};
      co_return durable.error();
    }
  }
  co_return NfsAnswer::written(status);
}

Task<NfsAnswer> refuse_shown(Volume& volume, NfsRequest& request, rpc::XdrWriter& out,
                             storage::LogPosition shown, Status status) {
  nfs3::encode_failure(out, request.procedure, status, request.attributes, request.wcc);
  return answer_shown(volume, request, shown, status);
}

Change::Change(Volume& in, NfsRequest& of, rpc::XdrWriter& to)
    : volume(in), request(of), out(to), transaction(in.cells), now(in.now()), start_(to.size()) {}

Answer<AttributeCell*> Change::object(const routing::FileHandle& handle) {
  auto cell = transaction.load(cell_of(handle));
  if (!cell) return refuse(cell.error());
  if (*cell == nullptr || (*cell)->self.type != handle.type) return refuse(Status::kStale);
  return *cell;
}

Answer<AttributeCell*> Change::directory(const routing::FileHandle& handle) {
  auto cell = object(handle);
  if (cell && !(*cell)->directory()) return refuse(Status::kNotDir);
  return cell;
}

Answer<routing::FileHandle> Change::open(nfs3::HandleView handle) const {
  auto opened = volume.context.handles.open(handle);
  if (!opened) return refuse(Status::kBadHandle);
  return *opened;
}

Answer<NamedEntry> Change::look_up(AttributeCell& in, std::string_view name) {
  if (Status status = check_name(name); status != Status::kOk) return refuse(status);
  if (!may(request.who, in, service::kMayExecute)) return refuse(Status::kAcces);
  NamedEntry named{.directory = &in, .place = volume.placement.place(in.self.cell, name)};
  auto entry = transaction.find(named.place);
  if (!entry) return refuse(entry.error());
  if (*entry != nullptr) named.target = (*entry)->target;
  return named;
}

Answer<AttributeCell*> Change::target(const NamedEntry& entry) {
  auto cell = transaction.load(entry.target->cell);
  if (!cell) return refuse(cell.error());
  if (*cell == nullptr) {
    return refuse(Error{Errc::kCorrupt, fmt::format("a name in directory {:#x} points to file {:#x}, which "
                                                    "has no attribute cell",
                                                    entry.directory->self.cell.fileid.value,
                                                    entry.target->cell.fileid.value)});
  }
  return *cell;
}

void Change::touch_directory(AttributeCell& cell) {
  cell.mtime = cell.ctime = later(now, std::max(cell.mtime, cell.ctime));
  transaction.change(cell);
}

void Change::drop_link(AttributeCell& cell) {
  if (!cell.directory() && cell.nlink > 1) {
    --cell.nlink;
    cell.ctime = later(now, cell.ctime);
    transaction.change(cell);
    return;
  }
  transaction.erase(cell);
  if (!cell.regular()) return;
  if (cell.truncating) {
    transaction.erase_record(truncation_key(cell.self.cell.site, cell.self.cell.fileid));
  }
  if (auto record = volume.reclaimer.add(transaction, cell)) reclaims_.push_back(std::move(*record));
}

nfs3::WccData Change::wcc_after(const nfs3::WccData& before, const AttributeCell& cell) const {
  return {.before = before.before, .after = volume.attributes(cell)};
}

Task<NfsAnswer> Change::commit() {
  CallKey call = key_of(request.call);
  volume.duplicates.record(call, as_text(out.view()).substr(start_), request.handle.directory_site,
                           transaction);
  auto position = transaction.commit();
  if (position) {
    if (auto durable = co_await volume.cells.durable(*position); !durable) {
      position = tl::unexpected(std::move(durable.error()));
    }
  }
  if (!position) {
    out.rewind(start_);
    Status status = refuse(position.error()).value();
    // Nothing is said of attributes: they may be those that did not come to be.
    nfs3::encode_failure(out, request.procedure, status);
    co_return NfsAnswer::written(status);
  }
  for (ReclaimRecord& record : reclaims_) volume.reclaimer.enqueue(std::move(record));
  co_return NfsAnswer::written();
}

Task<slice::Status> Change::commit_first_step() {
  auto position = transaction.commit();
  if (!position) co_return tl::unexpected(std::move(position.error()));
  co_return co_await volume.cells.durable(*position);
}

Task<NfsAnswer> Change::fail(Status status) {
  out.rewind(start_);
  nfs3::encode_failure(out, request.procedure, status, request.attributes, request.wcc);
  return answer(status);
}

Task<NfsAnswer> Change::answer(Status status) {
  return answer_shown(volume, request, transaction.shown(), status);
}

}  // namespace slice::dirserver
