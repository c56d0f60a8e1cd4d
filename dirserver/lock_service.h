// LockService: NLM version 4 (wire/nlm4.h) for the files of the sites that this server has, as proxies pass
// it on, and FREE of the locks program (wire/locks.h). Who has what locked is durable before it is answered,
// with the answer for the copies of the call that come late; so nothing is lost by a restart, a failover or a
// move of the site, and there is no time of grace after one. docs/locks.md. One loop.
#ifndef SLICE_DIRSERVER_LOCK_SERVICE_H
#define SLICE_DIRSERVER_LOCK_SERVICE_H

#include <optional>

#include "dirserver/volume.h"
#include "rpc/refusals.h"
#include "service/internal_program.h"
#include "service/site_gate.h"
#include "wire/locks.h"

namespace slice::dirserver {

class LockService : public rpc::Program {
 public:
  // Requests for sites pass `gate`. Both outlive this.
  LockService(Volume& volume, service::SiteGate& gate);
  std::uint32_t number() const override { return nlm4::kProgram; }
  std::uint32_t version() const override { return nlm4::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;
  rpc::Program& internal() { return internal_; }

 private:
  struct Request;
  // Nothing: it may be carried out.
  std::optional<nlm4::Status> admit(const rpc::Call& call, Request& request);
  Task<rpc::Outcome> pass_on(const rpc::Call& call, const Request& request, rpc::XdrWriter& results);
  // `copy`: it was answered before.
  Task<rpc::Outcome> run_once(const rpc::Call& call, const Request& request, bool deadlocked,
                              rpc::XdrWriter& results, bool& copy);
  // One that may be done; nothing: it is not known what became of it.
  Task<std::optional<nlm4::Status>> run(const Request& request, const CallKey& key, bool deadlocked);
  Task<rpc::Outcome> test(const Request& request, rpc::XdrWriter& results);
  // The status, and in `locks` what the file's are then, where they change.
  nlm4::Status decide(const Request& request, const AttributeCell* file, ClientLocks& locks) const;
  nlm4::Status lock(const Request& request, ClientLocks& locks) const;
  // Whether a wait for it would never come to an end, as this server and the others know it: who holds what
  // is in its way waits, perhaps by way of others, for the same process. Two that cross at the same moment
  // may both be told to wait; then it is found when one of them asks again.
  Task<bool> deadlock(const Request& request);
  bool quiet(const Request& request, bool after_start) const;
  Task<void> until_quiet(const Request& request, bool after_start);
  // Whether it would be told to wait, as it is now.
  bool waits(const Request& request) const;
  wire::WaitsResult led_to(const wire::WaitsArgs& args) const;
  Task<wire::FreeLocksResult> free(const wire::FreeLocksArgs& args);
  Task<bool> free_site(const wire::FreeLocksArgs& args, SiteId site);

  Volume& volume_;
  service::SiteGate& gate_;
  const SettingsReader settings_;
  service::InternalProgram internal_{wire::kLocksProgram};
  Counter &calls_, &refused_, &deadlocks_, &full_, &passed_on_, &freed_;
  rpc::Refusals refusals_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_LOCK_SERVICE_H
