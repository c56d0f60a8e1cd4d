// NbdHandshake: what one client and the server agree upon before there are requests: which device, and how
// replies look. Knows options and answers, and nothing of connections (nbd_connection.h).
#ifndef SLICE_BLOCK_NBD_HANDSHAKE_H
#define SLICE_BLOCK_NBD_HANDSHAKE_H

#include <memory>
#include <optional>
#include <string>

#include "block/device.h"
#include "block/nbd.h"
#include "block/nbd_metrics.h"

namespace slice::block {

class NbdHandshake {
 public:
  struct Settings {
    bool offers_tls = false;
    bool wants_tls = false;     // nothing is agreed upon in clear
    std::uint32_t longest = 0;  // a request's data, bytes
  };
  enum class Next : std::uint8_t {
    kOption,
    kTls,           // when the answer is with the client
    kTransmission,  // of device()
    kEnd,           // likewise
  };
  struct Answer {
    Buffer bytes = {};  // for the client
    Next next = Next::kOption;
    std::optional<NbdRefusal> refused = {};
    std::string told = {};  // for the log, of what was refused
  };
  static constexpr std::uint16_t kFlags = nbd::kFixedNewstyle | nbd::kNoZeroes;  // those of the greeting

  // `devices` outlive it.
  NbdHandshake(Devices& devices, Settings settings) : devices_(devices), settings_(settings) {}

  // What the client says to the greeting. False: it is to be left.
  bool take_flags(std::uint32_t flags);
  // One option after the other; it outlives the task.
  Task<Answer> answer(nbd::Option option, Buffer data);
  // The connection has gone over to TLS: what was agreed upon in clear counts no more.
  void tls_began();

  bool structured() const { return structured_; }
  // Whether device()'s base:allocation was agreed upon.
  bool allocation() const { return !context_of_.empty() && context_of_ == name_; }
  const std::string& name() const { return name_; }  // of device()
  std::shared_ptr<Device> take_device() { return std::move(device_); }

 private:
  bool only_tls() const { return settings_.wants_tls && !over_tls_; }
  // By which name Devices know it: the only one there is where the client names none.
  std::string resolve(std::string_view name) const;
  Task<Status> open(std::string_view name);
  nbd::ExportInfo info() const;
  Task<Answer> export_name(Buffer data);
  Task<Answer> export_request(nbd::Option option, Buffer data);
  Answer list(ByteView data) const;
  Task<Answer> meta_contexts(nbd::Option option, Buffer data);
  Answer start_tls(ByteView data) const;
  Answer begin_structured(ByteView data);

  Devices& devices_;
  const Settings settings_;
  bool zeroes_ = true;
  bool over_tls_ = false;
  bool structured_ = false;
  std::string context_of_;  // the device whose base:allocation was agreed upon
  std::string name_;
  std::shared_ptr<Device> device_;  // of the last option that named one
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_NBD_HANDSHAKE_H
