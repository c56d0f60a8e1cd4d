// QuotaProgram: RQUOTA (wire/rquota.h) on the virtual address: tells a client's users what they may have, and
// have. A user sees their own quota and those of their groups, the superuser everybody's, as the export has
// them.
#ifndef SLICE_PROXY_PROGRAMS_QUOTA_PROGRAM_H
#define SLICE_PROXY_PROGRAMS_QUOTA_PROGRAM_H

#include <functional>

#include "common/settings.h"
#include "rpc/dispatcher.h"
#include "rpc/refusals.h"
#include "service/context.h"
#include "wire/quota.h"
#include "wire/rquota.h"

namespace slice::proxy {

class QuotaProgram : public rpc::Program {
 public:
  // Asks the manager.
  using Ask = std::function<Task<Result<wire::QuotaUsageResult>>(wire::QuotaUsageArgs args)>;
  // `version`: of RQUOTA; each has a program of its own. `context` outlives it.
  QuotaProgram(service::ServiceContext& context, std::uint32_t version, Ask ask);
  std::uint32_t number() const override { return rquota::kProgram; }
  std::uint32_t version() const override { return version_; }
  // No answer while the manager does not answer: the client asks again.
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  service::ServiceContext& context_;
  const std::uint32_t version_;
  const Ask ask_;
  Counter &told_, &refused_, &unanswered_;
  rpc::Refusals refusals_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_QUOTA_PROGRAM_H
