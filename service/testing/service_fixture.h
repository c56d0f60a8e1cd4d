// ServiceFixture: what a server's logic needs, on simulated time and in memory: for tests of services.
//
//   class MyTest : public service::testing::ServiceFixture {
//     MyTest() : ServiceFixture("store1") {}
//   };
//   serve("dir1", fake_authority_);  run(task);  loop_.advance(1s);
#ifndef SLICE_SERVICE_TESTING_SERVICE_FIXTURE_H
#define SLICE_SERVICE_TESTING_SERVICE_FIXTURE_H

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/manual_loop.h"
#include "rpc/in_process.h"
#include "service/context.h"
#include "service/testing/sample_config.h"
#include "storage/memory_disk.h"

namespace slice::service::testing {

class ServiceFixture : public ::testing::Test {
 protected:
  explicit ServiceFixture(const std::string& self_name, EnsembleConfig config = sample_config())
      : config_(std::move(config)),
        self_(*config_.find(self_name)),
        network_(loop_, config_.ensemble_key, rpc::Endpoint{self_.address, self_.port}, self_.index),
        disk_(loop_),
        handles_(config_),
        tables_(routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_)).value()),
        settings_(settings_of(config_)),
        context_{.loop = loop_,
                 .channel = network_,
                 .metrics = metrics_,
                 .disk = disk_,
                 .config = config_,
                 .self = self_,
                 .handles = handles_,
                 .tables = tables_,
                 .settings = settings_,
                 .verifier = verifier_,
                 .random = [this] { return random_ += 0x9e3779b97f4a7c15; },
                 .crash = crash_points_} {}

  // Calls that are under way end by their time-outs, so that nothing is left behind.
  void TearDown() override { loop_.advance(std::chrono::seconds(20)); }

  rpc::Endpoint endpoint(const std::string& server) const {
    if (const ServerConfig* config = config_.find(server)) return {config->address, config->port};
    for (const wire::ServerEntry& added : tables_.get()->wire().servers) {
      if (added.name == server) return added.endpoint;
    }
    return {};
  }
  // Lets `program` answer at the endpoint of `server`; several programs at one server add up.
  void serve(const std::string& server, rpc::Program& program) {
    auto& dispatcher = dispatchers_[server];
    if (!dispatcher) dispatcher = std::make_unique<rpc::Dispatcher>(metrics_);
    dispatcher->add(program);
    network_.attach(endpoint(server), dispatcher.get());
  }
  // One more server, which has no sites, as one that was added while all served; `program` answers there. Its
  // index.
  std::uint32_t add_server(const std::string& name, wire::Role role, rpc::Program& program) {
    wire::Tables tables = tables_.get()->wire();
    const auto index = static_cast<std::uint32_t>(tables.servers.size());
    wire::ServerEntry entry = tables.servers.front();
    entry.server = index;
    entry.name = name;
    entry.role = role;
    entry.endpoint.address = 0x0a4d0202 + (index << 8);
    tables.servers.push_back(entry);
    tables_.set(routing::RoutingTables::make(config_, tables).value());
    auto& dispatcher = dispatchers_[name] = std::make_unique<rpc::Dispatcher>(metrics_);
    dispatcher->add(program);
    network_.attach(entry.endpoint, dispatcher.get());
    return index;
  }
  // Nobody answers there any more, until serve().
  void silence(const std::string& server) {
    network_.attach(endpoint(server), nullptr);
    if (auto gone = dispatchers_.extract(server)) retired_.push_back(std::move(gone.mapped()));
  }

  // Runs a task on simulated time to its end and returns its value.
  template <class T>
  T run(Task<T> task) {
    std::optional<T> value;
    start(std::move(task), [&](T result) { value.emplace(std::move(result)); });
    EXPECT_TRUE(loop_.run_until([&] { return value.has_value(); })) << "the task never ended";
    return std::move(*value);
  }
  // Starts a task; `done` gets its value when it ends.
  template <class T, class Done>
  void start(Task<T> task, Done done) {
    spawn(run_to_end(std::move(task), std::move(done)));
  }
  template <class Done>
  void start_void(Task<void> task, Done done) {
    spawn(run_void_to_end(std::move(task), std::move(done)));
  }

  ManualLoop loop_;
  EnsembleConfig config_;
  const ServerConfig& self_;
  rpc::InProcessNetwork network_;
  Metrics metrics_;
  storage::MemoryDisk disk_;
  routing::HandleCodec handles_;
  routing::TableHolder tables_;
  LiveSettings settings_;
  VerifierClock verifier_{Verifier{1}};
  std::uint64_t random_ = 1;
  CrashPoints crash_points_;
  ServiceContext context_;

 private:
  template <class T, class Done>
  static Task<void> run_to_end(Task<T> task, Done done) {
    done(co_await std::move(task));
  }
  template <class Done>
  static Task<void> run_void_to_end(Task<void> task, Done done) {
    co_await std::move(task);
    done();
  }

  std::map<std::string, std::unique_ptr<rpc::Dispatcher>> dispatchers_;
  std::vector<std::unique_ptr<rpc::Dispatcher>> retired_;  // calls may still be under way in them
};

}  // namespace slice::service::testing

#endif  // SLICE_SERVICE_TESTING_SERVICE_FIXTURE_H
