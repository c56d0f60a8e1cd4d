#include "dirserver/background/data_servers.h"

#include <set>

#include "bpf/shared/file_handle.h"
#include "service/internal_call.h"
#include "wire/coordinator.h"

namespace slice::dirserver {
namespace {

template <class Answer>
Status status_of(const Result<Answer>& result, std::string_view what, FileId file) {
  if (!result) return fail(result.error(), fmt::format("{} of file {:#x}", what, file.value));
  if (result->status != nfs3::Status::kOk) {
    return fail(Errc::kUnavailable, "{} of file {:#x} was answered {}", what, file.value,
                nfs3::status_name(result->status));
  }
  return {};
}

}  // namespace

bool DataServers::involved(const AttributeCell& cell) const {
  bool mirrored = slice_handle_copies(cell.self.flags) > 1;
  return cell.striped || (context_.config.volume.threshold > 0 && !mirrored);
}

rpc::Endpoint DataServers::coordinator(FileId file) const {
  const auto& tables = *context_.tables.get();
  return tables.server_of(wire::Role::kCoordinator, tables.coordinator_site(file)).endpoint;
}

template <class Args>
Task<Status> DataServers::ask_small_file(wire::ObjectProcedure procedure, Args args, std::string_view what) {
  const FileId file = args.object.fileid;
  const auto tables = context_.tables.get();
  args.known = tables->generation();
  std::set<std::uint32_t> asked;
  std::uint32_t next = tables->server_of(wire::Role::kSmallFile, tables->small_file_site(file)).server;
  while (asked.insert(next).second) {
    const wire::ServerEntry* server = context_.tables.get()->server(next);
    if (server == nullptr) break;  // it is not known here yet
    auto result = co_await service::internal_call<wire::ObjectStatusResult>(
        context_.channel, server->endpoint, wire::kObjectProgram, procedure, args);
    SLICE_CO_RETURN_IF_ERROR(status_of(result, what, file));
    if (result->also.empty()) co_return Status{};
    next = result->also.front();
  }
  co_return fail(Errc::kUnavailable, "{} of file {:#x}: nobody says that the file is its own", what,
                 file.value);
}

Task<Status> DataServers::truncate(const TruncationRecord& record) {
  FileId file = record.file.cell.fileid;
  if (record.striped) {
    routing::HandleBytes handle = context_.handles.mint(handle_of(record.file));
    wire::CoordinatorTruncateArgs args{.handle = handle, .size = record.size, .epoch = record.epoch};
    co_return status_of(co_await service::internal_call<wire::CoordinatorResult>(
                            context_.channel, coordinator(file), wire::kCoordinatorProgram,
                            wire::CoordinatorProcedure::kTruncate, args, std::chrono::seconds(10)),
                        "truncation", file);
  }
  wire::ObjectTruncateArgs args{.object = {.volume = context_.config.volume.id, .fileid = file},
                                .size = record.size,
                                .epoch = record.epoch};
  co_return co_await ask_small_file(wire::ObjectProcedure::kTruncate, args, "truncation");
}

Task<Status> DataServers::remove(const ReclaimRecord& record) {
  FileId file = record.file.cell.fileid;
  if (record.striped) {
    routing::HandleBytes handle = context_.handles.mint(handle_of(record.file));
    wire::CoordinatorRemoveArgs args{.handle = handle};
    co_return status_of(co_await service::internal_call<wire::CoordinatorResult>(
                            context_.channel, coordinator(file), wire::kCoordinatorProgram,
                            wire::CoordinatorProcedure::kRemove, args),
                        "removal", file);
  }
  wire::ObjectRemoveArgs args{.object = {.volume = context_.config.volume.id, .fileid = file}};
  co_return co_await ask_small_file(wire::ObjectProcedure::kRemove, args, "removal");
}

}  // namespace slice::dirserver
