#include "control/xdp/xdp_program.h"

#include "common/log.h"
#include "control/xdp/reverse_path.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kWaysStep = 2s;

}  // namespace

XdpProgram::XdpProgram(rpc::EpollLoop& loop, const ProxyConfig& config, Metrics& metrics,
                       std::function<void(const slice_eviction&)> evicted)
    : loop_(loop), config_(config), metrics_(metrics), evicted_(std::move(evicted)) {}

XdpProgram::~XdpProgram() {
  if (loads_.joinable()) loads_.join();
}

Tables XdpProgram::open() {
  if (config_.xdp == ProxyConfig::Xdp::kOff) {
    reason_ = "off";
    unspread_ = "XDP is off";
    Loader::take_off(config_);
  } else if (auto opened = Loader::open(config_)) {
    loader_ = std::move(*opened);
    tables_ = loader_->tables();
    return tables_;
  } else {
    refused(opened.error().message);
  }
  memory_ = std::make_unique<MemoryTables>();
  tables_ = memory_->tables();
  return tables_;
}

void XdpProgram::refused(const std::string& reason) {
  reason_ = "none: " + reason;
  unspread_ = "no XDP: " + reason;
  log_warning("no XDP: {}; all requests go through user space", reason);
  Loader::take_off(config_);
}

Task<void> XdpProgram::load() {
  if (loader_ == nullptr) co_return;
  OneShot<Status> loaded;
  loads_ = std::thread([this, loaded] {
    Status status = loader_->load_program(config_);
    loop_.post_from_any_thread([loaded, status] { loaded.set(status); });
  });
  Status status = co_await loaded;
  loads_.join();
  decided_ = true;
  if (!status) {
    refused(status.error().message);
    co_return;
  }
  reason_.clear();
  rings_ = std::make_unique<Rings>(loop_, *loader_, metrics_, evicted_);
  keep_ways();
}

void XdpProgram::keep_ways() {
  neighbours_.refresh(tables_);
  tables_.forget_sources();
  if (!detached_) attach();
  loop_.after(kWaysStep, [this] { keep_ways(); });
}

void XdpProgram::attach() {
  loader_->attach(config_);
  if (spread_at_.empty()) return;
  Status attached = loader_->attach_spread(spread_at_);
  std::string refused = attached ? "" : attached.error().message;
  if (!refused.empty() && refused != unspread_) log_warning("clients are not sent on: {}", refused);
  unspread_ = std::move(refused);
}

void XdpProgram::servers_changed() {
  if (loaded()) neighbours_.refresh(tables_);
}

void XdpProgram::detach() {
  detached_ = true;
  if (loader_ != nullptr) loader_->detach();
}

std::string XdpProgram::describe() const {
  std::string doubts = neighbours_.doubts();
  if (!doubts.empty()) doubts = "; learns nothing over UDP, " + doubts;
  return "xdp: " + (loaded() ? loader_->describe() : reason_) + doubts + warnings();
}

std::string XdpProgram::warnings() const {
  std::string text =
      reverse_path_warnings(loaded() ? loader_->attached_interfaces() : usual_interfaces(), loaded());
  if (!text.empty()) text = "; " + text;
  if (!loaded() || config_.address_of(false).none()) return text;
  const std::string ipv6 = ipv6_warnings(loader_->attached_interfaces());
  return ipv6.empty() ? text : text + "; " + ipv6;
}

void XdpProgram::refresh_gauges() {
  if (loader_ != nullptr) loader_->export_outcomes(metrics_);
}

}  // namespace slice::proxy
