// FrontOptions: what slice-blockd and slice-link are told alike on their command lines: where and to whom
// they serve NBD, and what.
#ifndef SLICE_BLOCK_FRONT_OPTIONS_H
#define SLICE_BLOCK_FRONT_OPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "common/ip_address.h"
#include "common/loop.h"
#include "common/result.h"
#include "rpc/endpoint.h"

namespace slice::block {

struct FrontOptions {
  std::vector<rpc::Endpoint> listen;     // where NBD is served over TCP
  std::vector<std::string> paths;        // and over unix sockets
  std::vector<Network> allow;            // whose TCP clients come in; none: this host's, by loopback
  std::vector<std::string> volumes;      // that are served; none: all that there are
  Duration patience = Duration(0);       // how long an operation waits for who serves it; 0: for ever
  std::optional<rpc::Endpoint> metrics;  // of a page for Prometheus
  Duration spin = Duration(0);           // EpollLoop::spin()
};

// Their words. It outlives the parsing.
class FrontWords {
 public:
  // Adds them to the program's options. `awaited`: for whom --patience is, as --help says it.
  FrontWords(const cli::Command& app, std::string_view awaited);
  // --spin, for one that has no configuration which says so.
  void add_spin(const cli::Command& app);
  FrontWords(const FrontWords&) = delete;
  FrontWords& operator=(const FrontWords&) = delete;

  // After the parsing; kInvalid: a word that is wrong.
  Result<FrontOptions> take() const;

 private:
  std::vector<std::string> listen_, paths_, allow_, volumes_;
  std::string metrics_;
  double patience_ = 0;  // seconds
  std::uint32_t spin_us_ = 0;
};

// "ADDRESS[:PORT]".
Result<rpc::Endpoint> parse_place(const std::string& text, std::uint16_t usual_port);

}  // namespace slice::block

#endif  // SLICE_BLOCK_FRONT_OPTIONS_H
