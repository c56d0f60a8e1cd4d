#include "service/keys_again.h"

#include "common/bytes.h"
#include "common/log.h"
#include "rpc/tls.h"

namespace slice::service {
namespace {

bool read_certificates_again(rpc::Tls& tls) {
  if (Status status = tls.reload(); !status) {
    log_error("SIGHUP: the certificates stay as they were: {}", status.error().message);
    return false;
  }
  log_info("SIGHUP: certificates are read again");
  return true;
}

bool read_session_keys_again(const EnsembleConfig& config, rpc::KeyRing& keys) {
  auto read = read_session_keys(config);
  if (!read) {
    log_error("SIGHUP: the session keys stay as they were: {}", read.error().message);
    return false;
  }
  log_info("SIGHUP: {} session keys, the first is {}", read->size(), to_hex(rpc::key_id(read->front())));
  keys.replace(std::move(*read));
  return true;
}

}  // namespace

bool read_keys_again(const EnsembleConfig& config, rpc::KeyRing& keys) {
  const bool certificates = keys.tls() != nullptr && read_certificates_again(*keys.tls());
  if (!config.network.session_key_files.empty()) return read_session_keys_again(config, keys) || certificates;
  if (keys.tls() == nullptr)
    log_info("SIGHUP: [network] names no session_keys: there is nothing to read again");
  return certificates;
}

}  // namespace slice::service
