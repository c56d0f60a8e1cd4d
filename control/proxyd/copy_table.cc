#include "control/proxyd/copy_table.h"

#include "common/log.h"
#include "service/internal_call.h"
#include "wire/object.h"

namespace slice::proxy {

CopyTable::CopyTable(service::ServiceContext& context)
    : context_(context),
      silent_now_(context.metrics.gauge(
          "proxy_copies_silent_servers",
          "storage servers that do not answer, so that XDP sends them no READs of mirrored files")) {}

void CopyTable::keep(Tables tables) {
  tables_ = tables;
  if (tables_.copies != nullptr) look_and_wait();
}

void CopyTable::look_and_wait() {
  const auto& now = *context_.tables.get();
  for (const wire::ServerEntry* server : now.servers(wire::Role::kStorage)) {
    if (asked_.insert(server->server).second) spawn(ask(*this, server->server, server->endpoint));
  }
  if (std::erase_if(silent_, [&now](std::uint32_t server) { return now.server(server) == nullptr; }) != 0)
    silent_now_.set(silent_.size());
  write();
  context_.loop.after(kStep, [this] { look_and_wait(); });
}

Task<void> CopyTable::ask(CopyTable& self, std::uint32_t server, rpc::Endpoint at) {
  auto answer = co_await service::internal_call<service::NoResults>(
      self.context_.channel, at, wire::kObjectProgram, wire::ObjectProcedure::kNull, service::NoArguments{},
      kPatience, kRefusedPatience);
  self.asked_.erase(server);
  // Whatever else it says, somebody is there.
  self.heard(server,
             answer || (answer.error().code != Errc::kTimedOut && answer.error().code != Errc::kUnavailable));
}

void CopyTable::heard(std::uint32_t server, bool answers) {
  const bool changed = answers ? silent_.erase(server) != 0 : silent_.insert(server).second;
  if (!changed) return;
  log_info("server {} {} READs of mirrored files by XDP", server, answers ? "gets" : "is silent: it gets no");
  silent_now_.set(silent_.size());
  write();
}

void CopyTable::write() {
  const bool by_sites = context_.tables.get()->mirrored_go_by_hash();
  const std::uint32_t sites = tables_.config->site_mask[SLICE_CLASS_STORAGE] + 1;
  for (std::uint32_t site = 0; site < sites && site < SLICE_MAX_SITES; ++site)
    slice_store_relaxed64(&tables_.copies[site], by_sites ? entry_of(site) : 0);
}

std::uint64_t CopyTable::entry_of(std::uint32_t site) const {
  const auto owners =
      routing::owners_from(site, tables_.config->site_mask[SLICE_CLASS_STORAGE], SLICE_MAX_COPIES,
                           [this](std::uint32_t at) -> std::optional<std::uint32_t> {
                             const slice_site& entry = tables_.sites[slice_site_key(SLICE_CLASS_STORAGE, at)];
                             const std::uint32_t server = slice_load_relaxed32(&entry.server);
                             return server != 0 ? std::optional(server) : std::nullopt;
                           });
  std::uint64_t entry = 0;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (!silent_.contains(owners[i] - 1)) entry |= std::uint64_t{owners[i]} << (i * SLICE_COPY_BITS);
  }
  return entry;
}

}  // namespace slice::proxy
