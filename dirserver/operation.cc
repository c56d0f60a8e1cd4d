#include "dirserver/operation.h"

#include <algorithm>

namespace slice::dirserver {

using nfs3::Status;

void log_refusal(const Error& error) {
  static LogLimiter limiter(5);
  bool worth_a_line = error.code == Errc::kIo || error.code == Errc::kCorrupt;
  if (worth_a_line && limiter.allow()) log_error("{}: {}", errc_name(error.code), error.message);
}

tl::unexpected<Status> refuse(const Error& error) {
  log_refusal(error);
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

Task<Answer<std::optional<AttributeCell>>> read_cell(Volume& volume, CellRef ref,
                                                     storage::LogPosition& shown) {
  if (!volume.peers.owns(ref.site)) {
    auto far = co_await volume.peers.read(ref, false);
    if (!far) co_return refuse(far.error());
    co_return std::move(*far);
  }
  co_await volume.held.until_readable({ref.fileid, {}});
  shown = std::max(shown, volume.cells.pending(ref.fileid));
  auto cell = volume.cells.attributes(ref);
  if (!cell) co_return refuse(cell.error());
  if (*cell == nullptr) co_return std::nullopt;
  co_return std::optional<AttributeCell>(**cell);
}

Task<Answer<ReadDirectory>> read_directory(Volume& volume, const routing::FileHandle& handle,
                                           storage::LogPosition& shown) {
  CellRef ref = cell_of(handle);
  std::optional<ReadDirectory> found;
  if (volume.peers.owns(ref.site)) {
    co_await volume.held.until_readable({ref.fileid, {}});
    auto cell = read_object(volume, handle, shown);
    if (!cell) co_return refuse(cell.error());
    found = ReadDirectory{**cell, false};
  }
  while (!found) {
    shown = std::max(shown, volume.cells.pending(ref.fileid));
    if (const AttributeCell* leased = volume.parts.leased(ref)) {
      found = ReadDirectory{*leased, true};
    } else if (auto taken = co_await volume.parts.take_lease(ref); !taken) {
      co_return refuse(taken.error());
    }
  }
  if (found->cell.self.type != handle.type) co_return refuse(Status::kStale);
  co_return std::move(*found);
}

}  // namespace slice::dirserver
