#include "block/data_path.h"

#include <utility>

#include "common/log.h"
#include "rpc/bound_socket.h"
#include "service/membership.h"

namespace slice::block {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAskAgain = 500ms, kPatience = 2s;

}  // namespace

DataPath::DataPath(rpc::EpollLoop& loop, const EnsembleConfig& config, const rpc::KeyRing& keys,
                   Metrics& metrics)
    : loop_(loop),
      config_(config),
      metrics_(metrics),
      settings_(settings_of(config)),
      handles_(config),
      tables_(memory_.tables()),
      channel_(loop, {.keys = &keys,
                      .sender = service::kNobody,
                      .generation = [this] { return known_ ? known_->generation() : Generation{}; }}),
      connector_(loop, &keys),
      managers_(config),
      shared_(loop, channel_, handles_, metrics, tables_) {}

IpAddress DataPath::own_address() const {
  for (const auto* server : known_->servers(wire::Role::kDirectory)) {
    if (const IpAddress own = rpc::own_address_towards(server->endpoint); own != IpAddress{}) return own;
  }
  return {};
}

Task<Status> DataPath::ask() {
  auto said = co_await managers_.call<wire::Tables>(channel_, wire::ManagerProcedure::kGetTables,
                                                    service::NoArguments{}, kPatience);
  if (!said) co_return fail(std::move(said.error()));
  managers_.learn(*said);
  auto tables = routing::RoutingTables::make(config_, *said);
  if (!tables) co_return fail(std::move(tables.error()));
  follow(std::move(*tables));
  co_return Status{};
}

void DataPath::follow(std::shared_ptr<const routing::RoutingTables> tables) {
  if (known_ != nullptr && tables->generation() == known_->generation()) return;
  proxy::bind_sites(tables->wire(), tables_);
  if (known_ == nullptr) proxy::fill_config(*tables, *tables_.config);
  proxy::note_maps(*tables, *tables_.config);
  known_ = std::move(tables);
  log_info("tables of generation {} in use", known_->generation().value);
}

Task<void> DataPath::start() {
  for (;;) {
    const Status asked = co_await ask();
    if (asked) break;
    if (std::exchange(answered_, false)) log_warning("the manager is waited for: {}", asked.error().message);
    co_await loop_.sleep(kAskAgain);
  }
  answered_ = true;
  shared_.keep_clock();
  shared_.write_back().start();
  proxy::Worker::Options options;
  options.tables = tables_;
  options.sender = {.index = service::kNobody, .config = tables_.config, .member = true, .own = true};
  options.config = &config_;
  options.settings = &settings_;
  worker_ =
      std::make_unique<proxy::Worker>(loop_, connector_, options, shared_.cache(), shared_.maps(), metrics_);
  spawn(keep_asking());
}

// A request that goes by old tables is relayed by the server that it comes to.
Task<void> DataPath::keep_asking() {
  for (;;) {
    co_await loop_.sleep(kAskAgain);
    const Status asked = co_await ask();
    if (std::exchange(answered_, asked.has_value()) == answered_) continue;
    if (asked) {
      log_info("the manager answers again");
    } else {
      log_warning("the manager does not answer: {}; the tables that are known are used",
                  asked.error().message);
    }
  }
}

}  // namespace slice::block
