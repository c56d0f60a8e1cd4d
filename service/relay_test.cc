// Misdirected requests: several servers of one process, each with its own tables, over the in-process
// network.
#include "service/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "rpc/call.h"
#include "service/admin_program.h"
#include "service/nfs_program.h"
#include "service/testing/service_fixture.h"

namespace slice::service {
namespace {

using namespace std::chrono_literals;
using nfs3::Procedure;

constexpr rpc::Endpoint kClient{0x0a4d0102, 700};
constexpr FileId kFile{0x77};

// The NFS program of a server: remembers what it was asked; answers a call that it has seen with the first
// answer, as a directory server's duplicate-request cache does.
class Program : public NfsProgram {
 public:
  Program(ServiceContext& context, wire::Role role) : NfsProgram(context, role), loop_(context.loop) {}

  Task<NfsAnswer> around(const Operation& operation, NfsRequest& request, rpc::XdrWriter& results) override {
    const rpc::Call& call = request.call;
    seen.push_back({call.client, call.xid, call.relays, call.sender, call.internal, call.datagram,
                    request.who.uid, Buffer(call.arguments)});
    auto key = std::pair(call.client.address, call.xid);
    auto first = answers_.find(key);
    if (first != answers_.end()) {
      results.fixed(first->second.view());
      co_return NfsAnswer::written();
    }
    std::size_t start = results.size();
    NfsAnswer answer = co_await operation(request, results);
    answers_[key] = Buffer(results.view().subspan(start));
    co_return answer;
  }

  struct Seen {
    rpc::Endpoint client;
    Xid xid;
    unsigned relays;
    std::uint32_t sender;
    bool internal, datagram;
    std::uint32_t uid;
    Buffer arguments;
  };
  std::vector<Seen> seen;
  int executed = 0;
  Duration delay{0};
  Buffer written;

  void serve_data() {
    on<nfs3::ReadArgs>(Procedure::kRead, [this](NfsRequest& request, const nfs3::ReadArgs& args,
                                                rpc::XdrWriter& out) { return read(request, args, out); });
    on<nfs3::WriteArgs>(Procedure::kWrite, [this](NfsRequest& request, const nfs3::WriteArgs& args,
                                                  rpc::XdrWriter& out) { return write(request, args, out); });
  }
  void serve_names() {
    on<nfs3::RemoveArgs>(Procedure::kRemove, [this](NfsRequest& request, const nfs3::RemoveArgs&,
                                                    rpc::XdrWriter& out) { return remove(request, out); });
    on<nfs3::HandleView>(Procedure::kGetattr,
                         [](NfsRequest&, const nfs3::HandleView&, rpc::XdrWriter& out) -> Task<NfsAnswer> {
                           nfs3::encode_result(out, nfs3::GetattrOk{{.size = 4711}});
                           co_return NfsAnswer::written();
                         });
  }
  void serve_commit() {
    on<nfs3::CommitArgs>(Procedure::kCommit,
                         [](NfsRequest&, const nfs3::CommitArgs&, rpc::XdrWriter& out) -> Task<NfsAnswer> {
                           nfs3::encode_result(out, nfs3::CommitOk{.wcc = {}, .verifier = Verifier{8}});
                           co_return NfsAnswer::written();
                         });
  }

 private:
  Task<NfsAnswer> read(NfsRequest&, const nfs3::ReadArgs& args, rpc::XdrWriter& out) {
    if (delay > Duration(0)) co_await loop_.sleep(delay);
    Buffer data(std::min<std::size_t>(args.count, 1 << 20));
    for (std::size_t i = 0; i < data.size(); ++i) data.data()[i] = static_cast<std::uint8_t>(i * 7);
    nfs3::encode_result(out, nfs3::ReadOk{.attributes = nfs3::Attributes{.size = 99},
                                          .count = static_cast<std::uint32_t>(data.size()),
                                          .eof = true,
                                          .data = data.view()});
    co_return NfsAnswer::written();
  }
  Task<NfsAnswer> write(NfsRequest&, const nfs3::WriteArgs& args, rpc::XdrWriter& out) {
    written = Buffer(args.data);
    nfs3::encode_result(out, nfs3::WriteOk{.wcc = {}, .count = args.count, .verifier = Verifier{3}});
    co_return NfsAnswer::written();
  }
  Task<NfsAnswer> remove(NfsRequest&, rpc::XdrWriter& out) {
    if (executed++ > 0) co_return nfs3::Status::kNoEnt;
    nfs3::encode_result(out, nfs3::Status::kOk, nfs3::WccData{});
    co_return NfsAnswer::written();
  }

  Loop& loop_;
  std::map<std::pair<IpAddress, Xid>, Buffer> answers_;
};

class RelayTest : public testing::ServiceFixture {
 protected:
  struct Server {
    Server(RelayTest& test, const std::string& name, wire::Role role)
        : self(*test.config_.find(name)),
          channel(test.network_, {self.address, self.port}, self.index),
          tables(test.tables_.get()),
          context{.loop = test.loop_,
                  .channel = channel,
                  .metrics = metrics,
                  .disk = test.disk_,
                  .config = test.config_,
                  .self = self,
                  .handles = test.handles_,
                  .tables = tables,
                  .settings = test.settings_,
                  .verifier = test.verifier_,
                  .random = nullptr,
                  .crash = test.context_.crash,
                  .refresh_tables = [this] { return refresh(); }},
          program(context, role),
          dispatcher(metrics) {
      channel.set_generation([this] { return tables.get()->generation(); });
      dispatcher.add(program);
      test.network_.attach({self.address, self.port}, &dispatcher);
    }
    Task<void> refresh() {
      ++refreshes;
      co_await context.loop.sleep(3ms);
      if (managers) tables.set(managers);
    }
    std::uint64_t metric(std::string_view name) { return metrics.counter(name).value(); }

    const ServerConfig& self;
    Metrics metrics;
    rpc::InProcessNetwork channel;
    routing::TableHolder tables;
    std::shared_ptr<const routing::RoutingTables> managers;  // what a refresh brings
    int refreshes = 0;
    ServiceContext context;
    Program program;
    rpc::Dispatcher dispatcher;
  };

  RelayTest()
      : testing::ServiceFixture("proxy1", testing::two_directories()),
        dir1(*this, "dir1", wire::Role::kDirectory),
        dir2(*this, "dir2", wire::Role::kDirectory),
        store1(*this, "store1", wire::Role::kStorage),
        store2(*this, "store2", wire::Role::kStorage),
        coord1(*this, "coord1", wire::Role::kCoordinator),
        admin_("proxy1", metrics_,
               {.misdirected = [this](const wire::MisdirectedArgs& report) { reports_.push_back(report); }}) {
    for (Server* each : {&dir1, &dir2}) each->program.serve_names();
    for (Server* each : {&store1, &store2}) each->program.serve_data();
    coord1.program.serve_commit();
    serve("proxy1", admin_);
    routing::FileHandle handle{
        .type = nfs3::FileType::kRegular, .fileid = kFile, .directory_site = SiteId{0}};
    while (site_owner(wire::Role::kDirectory, handle.directory_site) != "dir2") ++handle.directory_site.value;
    file_ = handles_.mint(handle);
    store_be<std::uint64_t>(file_.data() + 32, (1ull << 63) | (1ull << 62) | 99);  // a proxy's hint
    handle.type = nfs3::FileType::kDirectory;
    folder_ = handles_.mint(handle);
    for (theirs_ = 65536; storage_owner(theirs_) != "store2";) theirs_ += 65536;
  }

  std::string site_owner(wire::Role role, SiteId site) const {
    return tables_.get()->server_of(role, site).name;
  }
  std::string storage_owner(std::uint64_t offset) const {
    return site_owner(wire::Role::kStorage, tables_.get()->storage_site(kFile, offset, 16));
  }
  // The same with every site of a class at one server.
  std::shared_ptr<const routing::RoutingTables> all_at(wire::Role role, const std::string& name,
                                                       std::uint64_t generation) const {
    wire::Tables tables = tables_.get()->wire();
    tables.generation = Generation{generation};
    auto& sites = tables.sites[static_cast<std::size_t>(role)];
    std::fill(sites.begin(), sites.end(), config_.find(name)->index);
    return routing::RoutingTables::make(config_, tables).value();
  }

  template <class Args>
  static Buffer encoded(const Args& args) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    return out.take();
  }
  Buffer read_arguments(std::uint32_t count = 4) const {
    return encoded(nfs3::ReadArgs{.file = file_, .offset = theirs_, .count = count});
  }
  Buffer remove_arguments() const { return encoded(nfs3::RemoveArgs{.directory = folder_, .name = "x"}); }

  // A client's call straight to a server, as XDP sends it on. Nothing: no answer within `patience`.
  std::optional<Result<rpc::Response>> ask(Server& at, Procedure procedure, Buffer arguments, Xid xid,
                                           Duration patience = 20s, bool datagram = false,
                                           rpc::Endpoint client = kClient) {
    rpc::Request request{.program = nfs3::kProgram,
                         .version = nfs3::kVersion,
                         .procedure = static_cast<std::uint32_t>(procedure),
                         .arguments = std::move(arguments),
                         .credential = rpc::AuthSys{.uid = 1000, .gid = 1000}};
    std::optional<std::optional<Buffer>> reply;
    start(at.dispatcher.dispatch(rpc::encode_request(request, xid, {}, 0), client, 0, {.datagram = datagram}),
          [&](std::optional<Buffer> got) { reply.emplace(std::move(got)); });
    asked_at_ = loop_.now();
    if (!loop_.run_until([&] { return reply.has_value(); }, patience)) return std::nullopt;
    if (!*reply) return std::nullopt;
    return rpc::open_response(std::move(**reply), 0);
  }
  static nfs3::Status status_of(const std::optional<Result<rpc::Response>>& reply) {
    if (!reply || !*reply) {
      ADD_FAILURE() << "no answer";
      return nfs3::Status::kServerFault;
    }
    return static_cast<nfs3::Status>(rpc::XdrReader((*reply)->results()).u32());
  }
  static std::string bytes_of(const std::optional<Result<rpc::Response>>& reply) {
    return reply && *reply ? to_hex((*reply)->results()) : "no answer";
  }

  Server dir1, dir2, store1, store2, coord1;
  AdminProgram admin_;
  std::vector<wire::MisdirectedArgs> reports_;
  routing::HandleBytes file_{}, folder_{};
  std::uint64_t theirs_ = 0;  // an offset whose stripe store2 has
  MonoTime asked_at_;
};

TEST_F(RelayTest, TheOwnerAnswersByteForByteAndSeesTheClient) {
  auto direct = ask(store2, Procedure::kRead, read_arguments(), Xid{31});
  auto relayed = ask(store1, Procedure::kRead, read_arguments(), Xid{32});
  EXPECT_EQ(status_of(relayed), nfs3::Status::kOk);
  EXPECT_EQ(bytes_of(relayed), bytes_of(direct));
  ASSERT_EQ(store2.program.seen.size(), 2u);
  const Program::Seen& seen = store2.program.seen[1];
  EXPECT_EQ(seen.client, kClient);
  EXPECT_EQ(seen.xid, Xid{32});
  EXPECT_EQ(seen.uid, 1000u);
  EXPECT_EQ(seen.relays, 1u);
  EXPECT_EQ(seen.sender, store1.self.index);
  EXPECT_FALSE(seen.internal);
  EXPECT_FALSE(seen.datagram);
  EXPECT_EQ(to_hex(seen.arguments.view()), to_hex(read_arguments().view())) << "the hint too";
  EXPECT_TRUE(store1.program.seen.empty());
  EXPECT_EQ(store1.metric("nfs_misdirected_total"), 1u);
  EXPECT_EQ(store1.metric("nfs_relayed_total"), 1u);
  EXPECT_EQ(store1.metric("nfs_failures_total{procedure=\"READ\"}"), 0u);
}

TEST_F(RelayTest, FailuresOfTheOwnerAreTheAnswerToo) {
  ask(dir2, Procedure::kRemove, remove_arguments(), Xid{1});
  EXPECT_EQ(status_of(ask(dir1, Procedure::kRemove, remove_arguments(), Xid{2})), nfs3::Status::kNoEnt);
  EXPECT_EQ(dir1.metric("nfs_failures_total{procedure=\"REMOVE\"}"), 1u);
  Buffer longer = encoded(nfs3::RemoveArgs{.directory = folder_, .name = "x"});
  longer.append(as_bytes("more"));
  auto garbage = ask(dir1, Procedure::kRemove, std::move(longer), Xid{3});
  ASSERT_TRUE(garbage);
  ASSERT_FALSE(*garbage);
  EXPECT_THAT(garbage->error().message, ::testing::HasSubstr("could not decode the arguments"));
}

TEST_F(RelayTest, WhatARoleDoesNotServeGoesToTheOneThatDoes) {
  auto reply = ask(store1, Procedure::kGetattr, encoded(nfs3::HandleView(file_)), Xid{1});
  EXPECT_EQ(bytes_of(reply),
            bytes_of(ask(dir2, Procedure::kGetattr, encoded(nfs3::HandleView(file_)), Xid{2})));
  // A storage node's COMMIT would make no more than its own part durable.
  EXPECT_EQ(status_of(ask(store1, Procedure::kCommit, encoded(nfs3::CommitArgs{.file = file_}), Xid{3})),
            nfs3::Status::kOk);
  EXPECT_EQ(coord1.program.seen.size(), 1u);
  EXPECT_EQ(status_of(ask(dir1, Procedure::kRead, read_arguments(), Xid{4})), nfs3::Status::kOk);
  EXPECT_EQ(store2.program.seen.size(), 1u);
  // A name that the routing core takes no hash of.
  std::string name(300, 'n');
  ask(store1, Procedure::kRemove, encoded(nfs3::RemoveArgs{.directory = folder_, .name = name}), Xid{5});
  EXPECT_EQ(dir2.program.seen.size(), 3u);
  // Nobody has it.
  EXPECT_EQ(status_of(ask(store1, Procedure::kPathconf, encoded(nfs3::HandleView(file_)), Xid{6})),
            nfs3::Status::kNotSupp);
}

TEST_F(RelayTest, AMegabyteIsRelayedBothWays) {
  Buffer data(1 << 20);
  for (std::size_t i = 0; i < data.size(); ++i) data.data()[i] = static_cast<std::uint8_t>(i * 11 >> 3);
  nfs3::WriteArgs args{.file = file_,
                       .offset = theirs_,
                       .count = 1 << 20,
                       .stable = nfs3::Stable::kFileSync,
                       .data = data.view()};
  EXPECT_EQ(status_of(ask(store1, Procedure::kWrite, encoded(args), Xid{1})), nfs3::Status::kOk);
  EXPECT_TRUE(std::ranges::equal(store2.program.written.view(), data.view()));
  auto reply = ask(store1, Procedure::kRead, read_arguments(1 << 20), Xid{2});
  EXPECT_EQ(bytes_of(reply), bytes_of(ask(store2, Procedure::kRead, read_arguments(1 << 20), Xid{3})));
  EXPECT_GT((*reply)->results().size(), std::size_t{1} << 20);
}

TEST_F(RelayTest, TheOwnerKnowsHowTheClientsCallCame) {
  const rpc::Call call{.client = kClient,
                       .security = {TransportSecurity::kMutualTls, SecurityFlavor::kKrb5i}};
  EXPECT_EQ(forwarded(call, {}, nfs3::kProgram, nfs3::kVersion).on_behalf.security, call.security);
}

TEST_F(RelayTest, ANamedInternalCallKeepsItsName) {
  rpc::Call call{.xid = Xid{7}, .client = kClient, .internal = true, .own = true};
  const rpc::OnBehalf named = forwarded(call, {}, nfs3::kProgram, nfs3::kVersion).on_behalf;
  EXPECT_TRUE(named.own);
  EXPECT_EQ(named.client, kClient);
  EXPECT_EQ(named.xid, Xid{7});
  call.own = false;
  EXPECT_EQ(forwarded(call, {}, nfs3::kProgram, nfs3::kVersion).on_behalf.client, rpc::Endpoint{});
}

TEST_F(RelayTest, TheOwnerKnowsThatTheReplyMustFitADatagram) {
  EXPECT_EQ(status_of(ask(store1, Procedure::kRead, read_arguments(), Xid{1}, 20s, true)), nfs3::Status::kOk);
  ASSERT_EQ(store2.program.seen.size(), 1u);
  EXPECT_TRUE(store2.program.seen[0].datagram);
}

TEST_F(RelayTest, ACallThatWasRelayedAndThenComesByItselfGetsTheFirstAnswer) {
  auto first = ask(dir1, Procedure::kRemove, remove_arguments(), Xid{9});
  EXPECT_EQ(status_of(first), nfs3::Status::kOk);
  EXPECT_EQ(bytes_of(ask(dir2, Procedure::kRemove, remove_arguments(), Xid{9})), bytes_of(first));
  EXPECT_EQ(bytes_of(ask(dir1, Procedure::kRemove, remove_arguments(), Xid{9})), bytes_of(first));
  EXPECT_EQ(dir2.program.executed, 1);
  EXPECT_EQ(status_of(ask(dir1, Procedure::kRemove, remove_arguments(), Xid{10})), nfs3::Status::kNoEnt);
}

TEST_F(RelayTest, TablesThatContradictOneAnotherEndInAWait) {
  store1.tables.set(all_at(wire::Role::kStorage, "store2", 4));
  store2.tables.set(all_at(wire::Role::kStorage, "store1", 4));
  EXPECT_EQ(status_of(ask(store1, Procedure::kRead, read_arguments(), Xid{1})), nfs3::Status::kJukebox);
  EXPECT_EQ(loop_.now() - asked_at_, 0s) << "nobody waits for it";
  EXPECT_EQ(store1.metric("nfs_relay_loops_total"), 1u) << "to store2, back to store1, and no further";
  EXPECT_EQ(store1.metric("nfs_misdirected_total"), 2u);
  EXPECT_EQ(store2.metric("nfs_misdirected_total"), 1u);
  // A name operation was not executed either, so the client may be told to send it as a new call.
  dir1.tables.set(all_at(wire::Role::kDirectory, "dir2", 4));
  dir2.tables.set(all_at(wire::Role::kDirectory, "dir1", 4));
  EXPECT_EQ(status_of(ask(dir1, Procedure::kRemove, remove_arguments(), Xid{2})), nfs3::Status::kJukebox);
}

TEST_F(RelayTest, AnOwnerThatIsAwayMakesTheClientWait) {
  silence("store2");
  EXPECT_EQ(status_of(ask(store1, Procedure::kRead, read_arguments(), Xid{1})), nfs3::Status::kJukebox);
  EXPECT_EQ(loop_.now() - asked_at_, Relay::kPatience);
  EXPECT_EQ(store1.metric("nfs_relay_failures_total"), 1u);
  EXPECT_EQ(store1.metric("nfs_relayed_total"), 0u);
  // It comes back in time.
  loop_.after(5s, [this] { network_.attach(endpoint("store2"), &store2.dispatcher); });
  EXPECT_EQ(status_of(ask(store1, Procedure::kRead, read_arguments(), Xid{2})), nfs3::Status::kOk);
  // Too late.
  store2.program.delay = Relay::kPatience + 1s;
  EXPECT_EQ(status_of(ask(store1, Procedure::kRead, read_arguments(), Xid{3})), nfs3::Status::kJukebox);
}

// JUKEBOX would make the client send it as a new call, of which the owner, which may have executed it, knows
// nothing.
TEST_F(RelayTest, ANameOperationOfUnknownOutcomeIsDoneAgain) {
  silence("dir2");
  EXPECT_FALSE(ask(dir1, Procedure::kRemove, remove_arguments(), Xid{1}, 60s));
  EXPECT_EQ(dir1.metric("rpc_calls_dropped_total"), 1u) << "its client sends it again";
  EXPECT_GT(dir1.metric("nfs_repeated_calls_total"), 3u);
  // The owner comes back in time.
  loop_.after(20s, [this] { network_.attach(endpoint("dir2"), &dir2.dispatcher); });
  EXPECT_EQ(status_of(ask(dir1, Procedure::kRemove, remove_arguments(), Xid{1}, 60s)), nfs3::Status::kOk);
  EXPECT_GE(loop_.now() - asked_at_, 20s);
  EXPECT_LE(loop_.now() - asked_at_, 30s);
}

TEST_F(RelayTest, OverUdpItIsLeftToRetransmission) {
  silence("dir2");
  EXPECT_FALSE(ask(dir1, Procedure::kRemove, remove_arguments(), Xid{1}, 20s, true));
  EXPECT_EQ(dir1.metric("rpc_calls_dropped_total"), 1u);
  EXPECT_EQ(dir1.metric("nfs_repeated_calls_total"), 0u);
  network_.attach(endpoint("dir2"), &dir2.dispatcher);
  EXPECT_EQ(status_of(ask(dir1, Procedure::kRemove, remove_arguments(), Xid{1}, 20s, true)),
            nfs3::Status::kOk);
}

TEST_F(RelayTest, ASenderWithNewerTablesMakesTheReceiverAskTheManager) {
  // store2 knows already that store1 has everything; a client's call still comes to store2.
  store2.tables.set(all_at(wire::Role::kStorage, "store1", 4));
  store1.managers = store2.tables.get();
  EXPECT_EQ(status_of(ask(store2, Procedure::kRead, read_arguments(), Xid{1})), nfs3::Status::kOk);
  EXPECT_EQ(store1.refreshes, 1);
  EXPECT_EQ(store1.program.seen.size(), 1u) << "served, and not sent back";
  EXPECT_EQ(store1.metric("nfs_misdirected_total"), 0u);
  EXPECT_EQ(store2.refreshes, 0);
  // Once they are as new, nobody asks.
  EXPECT_EQ(status_of(ask(store2, Procedure::kRead, read_arguments(), Xid{2})), nfs3::Status::kOk);
  EXPECT_EQ(store1.refreshes, 1);
}

TEST_F(RelayTest, AManagerThatDoesNotAnswerIsNoReasonToFail) {
  rpc::InProcessNetwork proxy(network_, endpoint("proxy1"), self_.index);
  proxy.set_generation([] { return Generation{9}; });
  rpc::Request request{.to = endpoint("store1"),
                       .program = nfs3::kProgram,
                       .version = nfs3::kVersion,
                       .procedure = static_cast<std::uint32_t>(Procedure::kRead),
                       .arguments = read_arguments()};
  request.on_behalf = {.client = kClient, .xid = Xid{5}};
  auto reply = run(proxy.call(std::move(request)));
  ASSERT_TRUE(reply);
  EXPECT_EQ(store1.refreshes, 1);
  ASSERT_EQ(store2.program.seen.size(), 1u);
  EXPECT_EQ(store2.program.seen[0].client, kClient);
  EXPECT_EQ(store2.program.seen[0].xid, Xid{5});
}

TEST_F(RelayTest, AnInternalCallStaysInternal) {
  rpc::Request request{.to = endpoint("store1"),
                       .program = nfs3::kProgram,
                       .version = nfs3::kVersion,
                       .procedure = static_cast<std::uint32_t>(Procedure::kRead),
                       .arguments = read_arguments()};
  ASSERT_TRUE(run(network_.call(std::move(request))));
  ASSERT_EQ(store2.program.seen.size(), 1u);
  EXPECT_TRUE(store2.program.seen[0].internal);
  EXPECT_EQ(store2.program.seen[0].uid, 0u);
}

TEST_F(RelayTest, WhatIsRefusedIsNotRelayed) {
  EXPECT_EQ(status_of(ask(store1, Procedure::kRead, read_arguments(), Xid{1}, 20s, false, {0xc0a80101, 700})),
            nfs3::Status::kAcces);
  file_[9] ^= 1;
  EXPECT_EQ(status_of(ask(store1, Procedure::kRead, read_arguments(), Xid{2})), nfs3::Status::kBadHandle);
  EXPECT_EQ(store1.metric("nfs_misdirected_total"), 0u);
  EXPECT_TRUE(store2.program.seen.empty());
}

TEST_F(RelayTest, ProxiesAreToldOnceASecond) {
  store1.tables.set(all_at(wire::Role::kStorage, "store2", 4));
  store2.tables.set(all_at(wire::Role::kStorage, "store1", 4));
  for (std::uint32_t i = 0; i < 5; ++i) ask(store1, Procedure::kRead, read_arguments(), Xid{i});
  ASSERT_EQ(reports_.size(), 1u) << "and not by a server that had the call from another";
  EXPECT_EQ(reports_[0].site_class, wire::Role::kStorage);
  EXPECT_EQ(reports_[0].site, tables_.get()->storage_site(kFile, theirs_, 16));
  EXPECT_EQ(reports_[0].generation, Generation{4});
  EXPECT_EQ(store1.metric("nfs_misdirected_reports_total"), 1u);
  loop_.advance(Relay::kReportInterval);
  ask(store1, Procedure::kRead, read_arguments(), Xid{8});
  EXPECT_EQ(reports_.size(), 2u);
  // A proxy that is away holds up nobody.
  silence("proxy1");
  loop_.advance(Relay::kReportInterval);
  ask(store1, Procedure::kRead, read_arguments(), Xid{9});
  EXPECT_EQ(loop_.now() - asked_at_, 0s);
  loop_.advance(5s);
  EXPECT_EQ(store1.metric("nfs_misdirected_report_failures_total"), 1u);
}

TEST_F(RelayTest, ReportsComeFromTheEnsembleAlone) {
  rpc::XdrWriter args;
  encode(args, wire::MisdirectedArgs{.site = SiteId{3}});
  auto report = [&](bool member, Buffer arguments) {
    rpc::Request request{.program = wire::kAdminProgram,
                         .version = wire::kInternalVersion,
                         .procedure = static_cast<std::uint32_t>(wire::AdminProcedure::kMisdirected),
                         .arguments = std::move(arguments)};
    rpc::Dispatcher dispatcher(metrics_);
    dispatcher.add(admin_);
    auto reply = run(dispatcher.dispatch(rpc::encode_request(request, Xid{1}, {.member = member}, 0), kClient,
                                         0, {.member = member}));
    return rpc::open_response(std::move(*reply), 0);
  };
  EXPECT_FALSE(report(false, Buffer(args.view())));
  EXPECT_FALSE(report(true, Buffer(args.view().first(12))));
  EXPECT_TRUE(reports_.empty());
  EXPECT_TRUE(report(true, Buffer(args.view())));
  EXPECT_EQ(reports_.size(), 1u);
}

}  // namespace
}  // namespace slice::service
