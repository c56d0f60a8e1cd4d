#include "blockd/link_ports.h"

#include <utility>

#include "common/log.h"
#include "link/key_file.h"

namespace slice::block {
namespace {

Result<std::vector<Key>> read_keys(const std::vector<std::string>& paths) {
  std::vector<Key> keys;
  for (const std::string& path : paths) {
    auto key = link::read_key(path);
    if (!key) return fail(std::move(key.error()));
    keys.push_back(*key);
  }
  return keys;
}

}  // namespace

Status LinkPorts::open() {
  if (!options_.used()) return {};
  auto keys = read_keys(options_.keys);
  if (!keys) return fail(std::move(keys.error()));
  keys_ = std::move(*keys);
  for (const rpc::Endpoint& at : options_.udp) {
    auto port = link::SocketPort::udp(loop_, metrics_, at);
    if (!port) return fail(std::move(port.error()));
    ports_.push_back(std::move(*port));
    log_info("serves the link at udp {}", rpc::to_string(ports_.back()->bound_at()));
  }
  for (const std::string& interface : options_.interfaces) {
    auto port = link::SocketPort::ethernet(loop_, metrics_, interface);
    if (!port) return fail(std::move(port.error()));
    ports_.push_back(std::move(*port));
    log_info("serves the link at interface {}", interface);
  }
  return {};
}

void LinkPorts::serve(block::Devices& devices) {
  if (!options_.used()) return;
  target_ = std::make_unique<link::Target>(loop_, metrics_, devices, link::TargetOptions{.keys = keys_});
  for (const auto& port : ports_) target_->serve(*port);
}

void LinkPorts::read_keys_again() {
  if (target_ == nullptr) return;
  if (auto keys = read_keys(options_.keys)) {
    target_->replace_keys(*keys);
  } else {
    log_error("SIGHUP: the link's keys stay as they were: {}", keys.error().message);
  }
}

void LinkPorts::finish() {
  if (target_ != nullptr) target_->finish();
}

}  // namespace slice::block
