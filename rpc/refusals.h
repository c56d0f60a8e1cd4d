// Refusals: who was refused for reasons of access, and what they had asked: each one is counted, and logged
// in one form, "refused client=10.77.1.9:4011 why=port: its export is secure, ...; asked: MNT '/'". At most a
// line in ten seconds of each reason and address, and five a second of each reason. One loop.
#ifndef SLICE_RPC_REFUSALS_H
#define SLICE_RPC_REFUSALS_H

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "common/log.h"
#include "common/metrics.h"
#include "rpc/endpoint.h"

namespace slice::rpc {

enum class Refused {
  kExport,     // no export names the address
  kPort,       // the export is secure, and the call came from a port of 1024 or above
  kTransport,  // the export wants TLS, or a certificate of the client
  kFlavor,     // the export wants another security flavor
  kReadOnly,   // the export is
  kPath,       // beside the export, or not to be mounted
  kHandle,     // no handle of this volume, or one with a wrong MAC
  kVerifier,   // a credential or verifier that is none, or is not believed
  kNotMember,  // an internal program, called from outside of the ensemble
  kSession,    // a session under another key, from elsewhere, or without the certificate
  kForged,     // what came over a session is not what a member sent
  kKinds
};

class Refusals {
 public:
  static constexpr std::size_t kMostAddresses = 1024;  // of which is remembered when they had a line

  // `metrics` outlives it.
  explicit Refusals(Metrics& metrics);
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  // The text says what was asked; it is made only where there is a line.
  template <class... Args>
  void note(Refused why, Endpoint client, fmt::format_string<Args...> asked, Args&&... args) {
    if (auto left_out = count(why, client.address)) {
      write(why, client, *left_out, fmt::format(asked, std::forward<Args>(args)...));
    }
  }

 private:
  struct Told {
    long second = 0;
    std::uint64_t left_out = 0;  // since then
  };
  // How many lines were left out since the last one; nothing: this one is, too.
  std::optional<std::uint64_t> count(Refused why, IpAddress address);
  static void write(Refused why, Endpoint client, std::uint64_t left_out, const std::string& asked);
  void forget_old(long now);

  std::array<Counter*, static_cast<std::size_t>(Refused::kKinds)> counters_{};
  LogLimiters<Refused> limits_{5};
  std::map<std::pair<Refused, IpAddress>, Told> told_;  // by reason and address
};

}  // namespace slice::rpc

#endif  // SLICE_RPC_REFUSALS_H
