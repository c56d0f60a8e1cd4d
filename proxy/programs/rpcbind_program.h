// RpcbindProgram: RPCBIND version 3 or 4 (RFC 1833 section 2) on the virtual addresses, read-only: what
// PortmapProgram is for IPv4, for both families.
#ifndef SLICE_PROXY_PROGRAMS_RPCBIND_PROGRAM_H
#define SLICE_PROXY_PROGRAMS_RPCBIND_PROGRAM_H

#include "common/config.h"
#include "rpc/dispatcher.h"
#include "wire/portmap2.h"
#include "wire/rpcbind4.h"

namespace slice::proxy {

class RpcbindProgram : public rpc::Program {
 public:
  // `config` outlives it. `version`: rpcbind4's, either.
  RpcbindProgram(const ProxyConfig& config, std::uint32_t version);
  std::uint32_t number() const override { return rpcbind4::kProgram; }
  std::uint32_t version() const override { return version_; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  // Empty where there is none.
  std::string address_of(const rpcbind4::Registration& asked, const rpc::Call& call, bool this_version) const;
  std::string address_at(std::uint32_t port, bool v4) const;
  std::vector<rpcbind4::Registration> registrations() const;

  const ProxyConfig& config_;
  const std::uint32_t version_;
  const std::vector<portmap2::Mapping> mappings_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_RPCBIND_PROGRAM_H
