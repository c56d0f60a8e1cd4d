// TwoServers: two directory servers in memory, dir1 and dir2, a client of theirs, and the test in place of
// the manager. DirectoryFixture (testing/fixture.h) is for what one server does alone.
#ifndef SLICE_DIRSERVER_TESTING_TWO_SERVERS_H
#define SLICE_DIRSERVER_TESTING_TWO_SERVERS_H

#include <memory>
#include <string>
#include <vector>

#include "dirserver/server.h"
#include "service/testing/service_fixture.h"
#include "service/testing/side.h"
#include "storage/memory_store.h"

namespace slice::dirserver::testing {

struct Side : service::testing::Side {
  using service::testing::Side::Side;
  storage::MemoryMedium medium;
  storage::MemoryStore* store = nullptr;
  std::unique_ptr<DirectoryServer> server;
  std::unique_ptr<rpc::Dispatcher> dispatcher;
  // Stopped ones: what is under way there finds out and ends.
  std::vector<std::unique_ptr<DirectoryServer>> retired;
};

class TwoServers : public service::testing::ServiceFixture {
 protected:
  explicit TwoServers(EnsembleConfig config = service::testing::two_directories())
      : ServiceFixture("manager1", std::move(config)) {
    first = side("dir1");
    second = side("dir2");
  }
  ~TwoServers() override {
    stop_server(*first);
    stop_server(*second);
    loop_.advance(std::chrono::seconds(20));
  }

  // It ends, and starts on what was durable.
  void restart(Side& side) {
    side.store->crash();
    stop_server(side);
    side.retired.push_back(std::move(side.server));
    start_server(side);
  }
  void stop_server(Side& side) {
    bool ended = false;
    start_void(side.server->stop(), [&ended] { ended = true; });
    loop_.run_until([&ended] { return ended; });
  }
  void start_server(Side& side) {
    side.server = std::make_unique<DirectoryServer>(
        side.context, [this, &side](service::ServiceContext&) -> Result<std::unique_ptr<storage::KvStore>> {
          auto store = std::make_unique<storage::MemoryStore>(loop_, side.medium);
          side.store = store.get();
          return std::unique_ptr<storage::KvStore>(std::move(store));
        });
    EXPECT_TRUE(run(side.server->start()));
    side.dispatcher = std::make_unique<rpc::Dispatcher>(side.metrics);
    for (auto* program : side.server->programs()) side.dispatcher->add(*program);
    side.network.attach(side.endpoint(), side.dispatcher.get());
    client.attach(side.endpoint(), side.dispatcher.get());
  }

  template <class Args>
  Task<Result<rpc::Response>> send(const Side& at, nfs3::Procedure procedure, const Args& args,
                                   std::uint32_t xid = 0, std::uint8_t relays = 0) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    rpc::Request request{.to = at.endpoint(),
                         .program = nfs3::kProgram,
                         .version = nfs3::kVersion,
                         .procedure = static_cast<std::uint32_t>(procedure),
                         .arguments = out.take(),
                         .timeout = std::chrono::seconds(20),
                         .credential = rpc::AuthSys{.uid = 0, .gid = 0}};
    // As a proxy passes on what a client has sent, again where the number is one of before.
    if (xid != 0) request.on_behalf = {.client = {0x0a4d0102, 900}, .xid = Xid{xid}, .relays = relays};
    return (xid != 0 ? network_ : client).call(std::move(request));
  }
  routing::HandleBytes root() const { return handles_.mint(routing::root_handle(config_.volume)); }
  static nfs3::Status status_of(const Result<rpc::Response>& response) {
    EXPECT_TRUE(response) << response.error().message;
    if (!response) return nfs3::Status::kServerFault;
    rpc::XdrReader in(response->results());
    return static_cast<nfs3::Status>(in.u32());
  }

  rpc::InProcessNetwork client{network_, rpc::Endpoint{0x0a4d0102, 900}, 0xffffffff};
  std::unique_ptr<Side> first, second;

 private:
  std::unique_ptr<Side> side(const std::string& name) {
    auto made = std::make_unique<Side>(loop_, config_, handles_, network_, name);
    EXPECT_TRUE(run(made->ownership.grant(made->tables.get()->wire())));
    start_server(*made);
    return made;
  }
};

}  // namespace slice::dirserver::testing

#endif  // SLICE_DIRSERVER_TESTING_TWO_SERVERS_H
