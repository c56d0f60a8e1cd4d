#include "proxy/programs/rpcbind_program.h"

#include "proxy/programs/portmap_program.h"

namespace slice::proxy {
namespace {

constexpr const char* kOwner = "slice";

}  // namespace

RpcbindProgram::RpcbindProgram(const ProxyConfig& config, std::uint32_t version)
    : config_(config), version_(version), mappings_(served_programs(config)) {}

std::string RpcbindProgram::address_at(std::uint32_t port, bool v4) const {
  const IpAddress address = config_.address_of(v4);
  if (address.none() || port == 0) return {};
  return rpcbind4::universal_address({address, static_cast<std::uint16_t>(port)});
}

// By the transport that is named, else by the one that the question came by.
std::string RpcbindProgram::address_of(const rpcbind4::Registration& asked, const rpc::Call& call,
                                       bool this_version) const {
  auto transport = rpcbind4::transport_of(asked.netid);
  if (!transport && !asked.netid.empty()) return {};
  if (!transport) transport = {.tcp = !call.datagram, .v4 = call.client.address.is_v4()};
  const std::uint32_t protocol = transport->tcp ? portmap2::kTcp : portmap2::kUdp;
  return address_at(port_of_program(mappings_, {asked.program, asked.version, protocol, 0}, this_version),
                    transport->v4);
}

std::vector<rpcbind4::Registration> RpcbindProgram::registrations() const {
  std::vector<rpcbind4::Registration> all;
  for (const bool v4 : {true, false}) {
    for (const portmap2::Mapping& each : mappings_) {
      std::string address = address_at(each.port, v4);
      if (address.empty()) continue;
      all.push_back({.program = each.program,
                     .version = each.version,
                     .netid = std::string(rpcbind4::netid(each.protocol == portmap2::kTcp, v4)),
                     .address = std::move(address),
                     .owner = kOwner});
    }
  }
  return all;
}

Task<rpc::Outcome> RpcbindProgram::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  using rpcbind4::Procedure;
  const auto procedure = static_cast<Procedure>(call.procedure);
  if (procedure == Procedure::kGetversaddr && version_ != rpcbind4::kVersion)
    co_return rpc::Outcome::kNoProcedure;
  switch (procedure) {
    case Procedure::kGetaddr:
    case Procedure::kGetversaddr: {
      rpcbind4::Registration asked;
      if (!rpcbind4::decode(call.arguments, asked)) co_return rpc::Outcome::kGarbage;
      rpcbind4::encode_address(results, address_of(asked, call, procedure == Procedure::kGetversaddr));
      co_return rpc::Outcome::kReply;
    }
    case Procedure::kDump:
      rpcbind4::encode(results, registrations());
      co_return rpc::Outcome::kReply;
    case Procedure::kSet:
    case Procedure::kUnset:
      portmap2::encode_done(results, false);  // nobody registers anything at the virtual address
      co_return rpc::Outcome::kReply;
    default:
      co_return rpc::Outcome::kNoProcedure;  // BCAST and INDIRECT: an open relay is no service
  }
}

}  // namespace slice::proxy
