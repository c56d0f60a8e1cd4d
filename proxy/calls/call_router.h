// CallRouter: from a record (or datagram) of a client to a Call, or to an answer of the proxy's own. Decides
// nothing about routes itself: that is bpf/shared/routing.h.
#ifndef SLICE_PROXY_CALLS_CALL_ROUTER_H
#define SLICE_PROXY_CALLS_CALL_ROUTER_H

#include <optional>

#include "common/settings.h"
#include "proxy/calls/call.h"
#include "proxy/calls/secured_calls.h"
#include "routing/file_handle.h"
#include "rpc/refusals.h"

namespace slice::proxy {

class CallRouter {
 public:
  // `settings` and `gss` outlive it; without the latter nobody comes by Kerberos.
  CallRouter(Services& services, const EnsembleConfig& config, const LiveSettings& settings, GssService* gss)
      : services_(services),
        secured_(services, *this, gss),
        settings_(settings),
        handles_(config),
        refused_(services.metrics.counter(
            "proxy_long_records_refused_total",
            "records of more than 64 KiB that were refused by their head and thrown away: of clients in no "
            "export, of handles that the ensemble did not make, or no WRITEs")),
        refusals_(services.metrics) {}

  // A whole message, without record mark; `largest_transfer`: bytes of data that a reply to this client may
  // carry. False where it is no RPC call at all: a stream is then out of step.
  bool take(Client& client, const BufferChain& message, std::uint32_t largest_transfer);
  // Answers what is not sent to a server; false where nothing can be answered.
  bool answer(Client& client, const slice_request& request, std::uint32_t outcome, ByteView head);
  // The head of a message of `total` bytes whose rest still comes. The call to give the pieces to (from the
  // first byte on), or null where it must be collected whole.
  Call* begin(Client& client, ByteView head, std::size_t total);
  // What such a message is answered with, where its head is enough to refuse it: its client is in no export,
  // its handle was not made by the ensemble, or nothing that long is a call. Its rest need not be kept.
  std::optional<Buffer> refuse(const Client& client, ByteView head, std::size_t total);
  // Whether some export names the address, and what a datagram of another is answered with: NULL as
  // everybody's, a call with NFS3ERR_ACCES, anything else not at all.
  bool is_exported_to(IpAddress address) const { return settings_.now().any_export_for(address) != nullptr; }
  std::optional<Buffer> refuse_stranger(ByteView message) const;

 private:
  bool answer_tls_wish(Client& client, const slice_request& request);
  void forward(Client& client, CallFacts facts, const slice_request& request, ByteView head,
               const BufferChain& message, std::uint32_t largest_transfer);
  // Where the data of a WRITE begins, if its arguments are well formed and boundaries lie in it or it is
  // long.
  bool write_is_sound(const slice_request& request, ByteView head, std::size_t total) const;

  Services& services_;
  SecuredCalls secured_;
  const SettingsReader settings_;
  const routing::HandleCodec handles_;
  Counter& refused_;
  rpc::Refusals refusals_;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_CALLS_CALL_ROUTER_H
