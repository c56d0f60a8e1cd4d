// PortmapProgram: PORTMAP version 2 (RFC 1833 section 3) on the virtual address, read-only: it knows the
// programs of the virtual address and no others.
#ifndef SLICE_PROXY_PROGRAMS_PORTMAP_PROGRAM_H
#define SLICE_PROXY_PROGRAMS_PORTMAP_PROGRAM_H

#include "common/config.h"
#include "rpc/dispatcher.h"
#include "wire/portmap2.h"

namespace slice::proxy {

// What there is at the virtual addresses, of TCP and UDP, RPCBIND of all versions among it.
std::vector<portmap2::Mapping> served_programs(const ProxyConfig& config);
// Of the program and protocol; 0 where it is not there. Of another version where that is not
// (RFC 1833 section 3.2), unless it is to be `this_version`.
std::uint32_t port_of_program(const std::vector<portmap2::Mapping>& mappings, const portmap2::Mapping& asked,
                              bool this_version = false);

class PortmapProgram : public rpc::Program {
 public:
  explicit PortmapProgram(const ProxyConfig& config);
  std::uint32_t number() const override { return portmap2::kProgram; }
  std::uint32_t version() const override { return portmap2::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  const std::vector<portmap2::Mapping> mappings_;
};

// Tells the host's own rpcbind, where there is one on this host, of MOUNT and NFS (so that clients that ask
// it find them), and of NLM where nobody else has told it, or takes that back. False where none answers.
// Blocks for at most a second.
bool register_at_rpcbind(const ProxyConfig& config, bool on);

}  // namespace slice::proxy

#endif  // SLICE_PROXY_PROGRAMS_PORTMAP_PROGRAM_H
