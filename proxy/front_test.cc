// Datagrams, MOUNT, PORTMAP and write-back.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/programs/mount_program.h"
#include "proxy/programs/portmap_program.h"
#include "proxy/programs/rpcbind_program.h"
#include "proxy/tables/write_back.h"
#include "proxy/testing/toy_ensemble.h"
#include "rpc/client.h"
#include "rpc/in_process.h"
#include "rpc/message.h"

namespace slice::proxy::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using wire::Role;

// Sends datagrams and keeps what comes back.
class Datagrams {
 public:
  explicit Datagrams(ToyEnsemble& ensemble, const char* from = "127.0.0.1")
      : ensemble_(ensemble), fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = ::inet_addr(from);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    address_.sin_family = AF_INET;
    address_.sin_port = htons(ensemble.udp.port);
    address_.sin_addr.s_addr = htonl(ensemble.udp.address.v4());
    int room = 4 << 20;
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    ensemble_.loop.watch(fd_, EPOLLIN, [this](std::uint32_t) { read(); });
  }
  ~Datagrams() {
    ensemble_.loop.unwatch(fd_);
    ::close(fd_);
  }
  void send(ByteView message) {
    EXPECT_EQ(::sendto(fd_, message.data(), message.size(), 0, reinterpret_cast<sockaddr*>(&address_),
                       sizeof address_),
              static_cast<ssize_t>(message.size()));
  }
  Buffer ask(const Buffer& message) {
    std::size_t before = replies.size();
    send(message.view());
    EXPECT_TRUE(ensemble_.run_until([&] { return replies.size() > before; }));
    return replies.empty() ? Buffer() : replies.back().clone();
  }
  std::vector<Buffer> replies;

 private:
  void read() {
    for (;;) {
      std::uint8_t bytes[65536];
      sockaddr_in from{};
      socklen_t size = sizeof from;
      ssize_t n = ::recvfrom(fd_, bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&from), &size);
      if (n < 0) return;
      EXPECT_EQ(from.sin_port, address_.sin_port);
      replies.emplace_back(ByteView(bytes, static_cast<std::size_t>(n)));
    }
  }
  ToyEnsemble& ensemble_;
  int fd_;
  sockaddr_in address_{};
};

template <class Ok>
nfs3::Status result_of(const Buffer& reply, Ok& ok) {
  auto header = rpc::decode_reply(reply.view());
  EXPECT_TRUE(header);
  rpc::XdrReader in(header->results);
  nfs3::Status status{};
  EXPECT_TRUE(nfs3::decode_result(in, status, ok));
  return status;
}

TEST(Udp, ReadsAndWritesAcrossBoundaries) {
  ToyEnsemble ensemble;
  Datagrams client(ensemble);
  auto data = pattern(300'000, 1);
  for (std::size_t at = 0; at < data.size(); at += 50'000) {
    nfs3::WriteOk ok;
    Buffer reply = client.ask(
        ensemble.write_call(Xid{static_cast<std::uint32_t>(at)}, 5, at, ByteView(data).subspan(at, 50'000)));
    ASSERT_EQ(result_of(reply, ok), nfs3::Status::kOk);
    ASSERT_EQ(ok.count, 50'000u);
  }
  std::size_t at = 0;
  while (at < data.size()) {
    nfs3::ReadOk ok;
    Buffer reply = client.ask(ensemble.read_call(Xid{static_cast<std::uint32_t>(at + 1)}, 5, at, 1 << 20));
    ASSERT_EQ(result_of(reply, ok), nfs3::Status::kOk);
    ASSERT_GT(ok.count, 0u);
    ASSERT_TRUE(std::equal(ok.data.begin(), ok.data.end(), data.begin() + static_cast<std::ptrdiff_t>(at)));
    at += ok.count;
    EXPECT_EQ(ok.eof, at == data.size());
  }
}

TEST(Udp, ARepeatedCallUnderWayIsNotSentTwice) {
  ToyEnsemble ensemble;
  Datagrams client(ensemble);
  auto& directory = ensemble.server(Role::kDirectory);
  directory.hold = true;
  auto handle = ensemble.handle(5);
  rpc::XdrWriter out;
  nfs3::encode_arguments(out, nfs3::HandleView(handle));
  Buffer call = ensemble.call(Xid{9}, nfs3::Procedure::kGetattr, out.view());
  for (int i = 0; i < 4; ++i) client.send(call.view());
  ASSERT_TRUE(ensemble.run_until([&] { return directory.held() == 1; }));
  ensemble.run_until([] { return false; }, 50ms);
  directory.release();
  ASSERT_TRUE(ensemble.run_until([&] { return client.replies.size() == 1; }));
  EXPECT_EQ(directory.calls, 1u);
  EXPECT_EQ(ensemble.metrics.counter("proxy_udp_repeated_total").value(), 3u);
  client.ask(call);  // after the reply it is a new call: the server's duplicate-request cache knows it
  EXPECT_EQ(directory.calls, 2u);
  EXPECT_THAT(directory.xids, ElementsAre(Xid{9}, Xid{9}));
}

// A host that calls from all its ports takes no place of another's, and still has its newest ones served.
TEST(Udp, OneHostsManyPortsHaveABound) {
  ToyEnsemble ensemble;
  Counter& senders = ensemble.metrics.counter("proxy_udp_senders");
  Datagrams faithful(ensemble);
  Buffer null = ensemble.call(Xid{1}, nfs3::Procedure::kNull, {});
  faithful.ask(null);
  for (int i = 0; i < 600; ++i) Datagrams(ensemble, "127.0.0.2").ask(null);
  EXPECT_EQ(senders.value(), 1u + 256u);
  faithful.ask(null);
  // Those with calls under way keep their places.
  auto& directory = ensemble.server(Role::kDirectory);
  directory.hold = true;
  rpc::XdrWriter out;
  auto handle = ensemble.handle(5);
  nfs3::encode_arguments(out, nfs3::HandleView(handle));
  Buffer waits = ensemble.call(Xid{9}, nfs3::Procedure::kGetattr, out.view());
  std::vector<std::unique_ptr<Datagrams>> many;
  for (int i = 0; i < 300; ++i) {
    many.push_back(std::make_unique<Datagrams>(ensemble, "127.0.0.3"));
    many.back()->send(waits.view());
    ensemble.run_until([] { return false; }, 0ms);
  }
  ensemble.run_until([] { return false; }, 50ms);
  EXPECT_EQ(senders.value(), 1u + 256u + 256u);
  EXPECT_GE(ensemble.metrics.counter("proxy_udp_refused_total").value(), 44u);
  directory.release();
  ASSERT_TRUE(ensemble.run_until([&] { return many.front()->replies.size() == 1; }));
}

// Nor do hosts that call from many ports each, and have taken all places: who has most of them loses one.
TEST(Udp, ManyHostsManyPortsLockNobodyOut) {
  ToyEnsemble ensemble({.udp_senders = 40});
  Counter& senders = ensemble.metrics.counter("proxy_udp_senders");
  Buffer null = ensemble.call(Xid{1}, nfs3::Procedure::kNull, {});
  Datagrams faithful(ensemble);
  faithful.ask(null);
  for (int host = 0; host < 20; ++host) {
    std::string from = "127.0.1." + std::to_string(host);
    for (int i = 0; i < 4; ++i) Datagrams(ensemble, from.c_str()).ask(null);
  }
  EXPECT_EQ(senders.value(), 40u);
  for (int host = 0; host < 60; ++host) {
    Datagrams(ensemble, ("127.0.2." + std::to_string(host)).c_str()).ask(null);
  }
  EXPECT_EQ(senders.value(), 40u);
  EXPECT_EQ(ensemble.metrics.counter("proxy_udp_refused_total").value(), 0u);
  faithful.ask(null);
}

// A sender with a call under way keeps its place, whoever has most.
TEST(Udp, WhoWaitsForAnAnswerIsNotForgotten) {
  ToyEnsemble ensemble({.udp_senders = 8});
  Counter& senders = ensemble.metrics.counter("proxy_udp_senders");
  Counter& refused = ensemble.metrics.counter("proxy_udp_refused_total");
  auto& directory = ensemble.server(Role::kDirectory);
  directory.hold = true;
  rpc::XdrWriter out;
  auto handle = ensemble.handle(5);
  nfs3::encode_arguments(out, nfs3::HandleView(handle));
  Buffer waits = ensemble.call(Xid{9}, nfs3::Procedure::kGetattr, out.view());
  Buffer null = ensemble.call(Xid{1}, nfs3::Procedure::kNull, {});
  std::vector<std::unique_ptr<Datagrams>> busy;
  auto call_from = [&](const char* from) {
    busy.push_back(std::make_unique<Datagrams>(ensemble, from));
    busy.back()->send(waits.view());
    ASSERT_TRUE(ensemble.run_until([&] { return directory.held() == busy.size(); }));
  };
  for (int i = 0; i < 7; ++i) call_from("127.0.0.2");
  for (int i = 0; i < 10; ++i) Datagrams(ensemble, "127.0.0.3").ask(null);
  EXPECT_EQ(senders.value(), 8u);
  EXPECT_EQ(refused.value(), 0u);
  call_from("127.0.0.4");
  Datagrams late(ensemble, "127.0.0.5");
  late.send(null.view());
  ASSERT_TRUE(ensemble.run_until([&] { return refused.value() == 1; }));
  directory.release();
  for (auto& each : busy) {
    ASSERT_TRUE(ensemble.run_until([&] { return each->replies.size() == 1; }));
  }
  late.ask(null);
  EXPECT_EQ(senders.value(), 8u);
}

// A client in no export is told so, and is not remembered; nor is a server asked.
TEST(Udp, AStrangerTakesNoPlace) {
  ToyEnsemble ensemble;
  ensemble.config.exports[0].clients = Network::of_v4(0x7f000000, 0xffffff00);
  ensemble.settings->set(settings_of(ensemble.config));
  Datagrams stranger(ensemble, "127.0.1.1");
  rpc::XdrWriter out;
  auto handle = ensemble.handle(5);
  nfs3::encode_arguments(out, nfs3::HandleView(handle));
  nfs3::GetattrOk ok;
  EXPECT_EQ(result_of(stranger.ask(ensemble.call(Xid{9}, nfs3::Procedure::kGetattr, out.view())), ok),
            nfs3::Status::kAcces);
  EXPECT_EQ(rpc::decode_reply(stranger.ask(ensemble.call(Xid{7}, nfs3::Procedure::kNull, {})).view())->xid,
            Xid{7});
  stranger.send(pattern(200, 1));
  ensemble.run_until([] { return false; }, 20ms);
  EXPECT_EQ(ensemble.metrics.counter("proxy_udp_senders").value(), 0u);
  EXPECT_EQ(ensemble.metrics.counter("proxy_udp_strangers_refused_total").value(), 3u);
  EXPECT_EQ(ensemble.server(Role::kDirectory).calls, 0u);
  Datagrams(ensemble).ask(ensemble.call(Xid{1}, nfs3::Procedure::kNull, {}));
}

TEST(Udp, GarbageIsIgnored) {
  ToyEnsemble ensemble;
  Datagrams client(ensemble);
  for (std::size_t size = 0; size < 200; ++size) client.send(pattern(size, static_cast<std::uint32_t>(size)));
  EXPECT_EQ(rpc::decode_reply(client.ask(ensemble.call(Xid{1}, nfs3::Procedure::kNull, {})).view())->xid,
            Xid{1});
}

// A program of its own, at the port of NFS: its calls go where those of NFS about the file go, and their
// replies are brought up to date as those are.
TEST(Udp, AclsAreAskedOfTheDirectoryServer) {
  ToyEnsemble ensemble;
  Datagrams client(ensemble);
  const auto handle = ensemble.handle(5);
  nfs3::WriteOk written;
  ASSERT_EQ(result_of(client.ask(ensemble.write_call(Xid{1}, 5, 0, pattern(3000, 1))), written),
            nfs3::Status::kOk);
  rpc::XdrWriter out;
  nfs3::encode_arguments(out, nfs3::GetaclArgs{handle, nfs3::kAclAccess});
  Buffer asked = ensemble.call(Xid{2}, nfs3::Procedure::kGetacl, out.view());
  nfs3::GetaclOk ok;
  ASSERT_EQ(result_of(client.ask(asked), ok), nfs3::Status::kOk);
  EXPECT_EQ(ok.access->users, (std::vector<nfs3::NamedAccess>{{1001, 6}}));
  EXPECT_EQ(ok.attributes->size, 3000u) << "which the directory server has not been told";
  EXPECT_EQ(ok.attributes->rdev_major, 0u) << "the epoch is nothing for clients";

  const auto refused = [&](std::size_t at, std::uint32_t word) {
    Buffer call = asked.clone();
    store_be(call.data() + at, word);
    return rpc::decode_reply(client.ask(call).view())->accept_stat;
  };
  EXPECT_EQ(refused(SLICE_CALL_VERSION, 2), rpc::AcceptStat::kProgramMismatch);
  EXPECT_EQ(refused(SLICE_CALL_PROCEDURE, 3), rpc::AcceptStat::kProcedureUnavailable);
  EXPECT_EQ(refused(SLICE_CALL_PROCEDURE, 0), rpc::AcceptStat::kSuccess);
  EXPECT_EQ(refused(SLICE_CALL_PROGRAM, 100228), rpc::AcceptStat::kProgramUnavailable);
}

// ---- MOUNT and PORTMAP ----

// A directory server that knows /a (a directory), /a/b (a directory), /a/file and /locked.
class Names : public rpc::Program {
 public:
  explicit Names(const routing::HandleCodec& codec) : codec_(codec) {}
  std::uint32_t number() const override { return nfs3::kProgram; }
  std::uint32_t version() const override { return nfs3::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    EXPECT_TRUE(call.internal);
    ++looked;
    nfs3::DirOpArgs args;
    EXPECT_TRUE(nfs3::decode_arguments(call.arguments, args));
    auto directory = codec_.open(args.directory);
    EXPECT_TRUE(directory);
    routing::FileHandle found;
    found.type = nfs3::FileType::kDirectory;
    if (args.name == "a" && directory->fileid.value == 1) {
      found.fileid = FileId{2};
      found.tree = tree_of_a;
    } else if (args.name == "b" && directory->fileid.value == 2) {
      found.fileid = FileId{3};
      found.tree = tree_of_a;
    } else if (args.name == "file" && directory->fileid.value == 2) {
      found.fileid = FileId{4};
      found.type = nfs3::FileType::kRegular;
    } else {
      nfs3::encode_failure(results, nfs3::Procedure::kLookup,
                           args.name == "locked" ? nfs3::Status::kAcces : nfs3::Status::kNoEnt);
      co_return rpc::Outcome::kReply;
    }
    auto handle = codec_.mint(found);
    nfs3::encode_result(results, nfs3::LookupOk{handle, {}, {}});
    co_return rpc::Outcome::kReply;
  }
  TreeId tree_of_a;
  unsigned looked = 0;

 private:
  const routing::HandleCodec& codec_;
};

class MountTest : public ::testing::Test {
 protected:
  MountTest() {
    config_.ensemble_key = {1};
    config_.exports = {{.clients = Network::of_v4(0x0a4d0100, 0xffffff00)},
                       {.clients = Network::of_v4(0x7f000001, 0xffffffff)}};
    for (std::uint32_t role = 0; role < 4; ++role) {
      ServerConfig server;
      server.name = fmt::format("s{}", role);
      server.role = static_cast<ServerRole>(role);
      server.index = role;
      server.address = 0x0a4d0302;
      config_.servers.push_back(server);
    }
    auto tables = routing::RoutingTables::make(config_, routing::RoutingTables::initial(config_));
    EXPECT_TRUE(tables);
    fill_config(**tables, *memory_.tables().config);
    bind_sites((*tables)->wire(), memory_.tables());
    codec_.emplace(config_);
    names_.emplace(*codec_);
    dispatcher_.emplace(metrics_);
    dispatcher_->add(*names_);
    network_.emplace(loop_, config_.ensemble_key, rpc::Endpoint{1, 1});
    network_->attach({0x0a4d0302, 2049}, &*dispatcher_);
    settings_.set(settings_of(config_));
    mount_.emplace(config_, settings_, memory_.tables(), *network_, metrics_);
  }
  Buffer call(rpc::Program& program, std::uint32_t procedure, ByteView arguments,
              IpAddress client = 0x0a4d0102, std::uint16_t port = 700) {
    rpc::Call call;
    call.procedure = procedure;
    call.arguments = arguments;
    call.client = {client, port};
    rpc::XdrWriter results;
    bool done = false;
    auto run = [](rpc::Program& target, const rpc::Call& one, rpc::XdrWriter& out,
                  bool& ended) -> Task<void> {
      co_await target.handle(one, out);
      ended = true;
    };
    spawn(run(program, call, results, done));
    EXPECT_TRUE(loop_.run_until([&] { return done; }, 5s));
    return results.take();
  }
  mount3::Status mount(std::string_view path, std::uint64_t* fileid = nullptr, IpAddress client = 0x0a4d0102,
                       std::uint16_t port = 700) {
    rpc::XdrWriter arguments;
    mount3::encode_path(arguments, path);
    Buffer reply = call(*mount_, 1, arguments.view(), client, port);
    mount3::MntResult result;
    EXPECT_TRUE(mount3::decode(reply.view(), result));
    if (fileid != nullptr && result.status == mount3::Status::kOk) {
      *fileid = codec_->open(result.handle)->fileid.value;
      EXPECT_EQ(result.flavors.front(), rpc::kAuthSys);
    }
    return result.status;
  }
  rpc::EpollLoop loop_;
  Metrics metrics_;
  EnsembleConfig config_;
  LiveSettings settings_{Settings{}};
  MemoryTables memory_;
  std::optional<routing::HandleCodec> codec_;
  std::optional<Names> names_;
  std::optional<rpc::Dispatcher> dispatcher_;
  std::optional<rpc::InProcessNetwork> network_;
  std::optional<MountProgram> mount_;
};

TEST_F(MountTest, TheExportAndDirectoriesBelow) {
  std::uint64_t fileid = 0;
  for (const char* path : {"/", "", "//", "/."}) {
    EXPECT_EQ(mount(path, &fileid), mount3::Status::kOk) << path;
    EXPECT_EQ(fileid, 1u);
  }
  EXPECT_EQ(mount("/a", &fileid), mount3::Status::kOk);
  EXPECT_EQ(fileid, 2u);
  EXPECT_EQ(mount("/a//./b/", &fileid), mount3::Status::kOk);
  EXPECT_EQ(fileid, 3u);
}

TEST_F(MountTest, EveryRefusalHasItsOwnStatus) {
  EXPECT_EQ(mount("/", nullptr, 0x0a4d0202), mount3::Status::kAcces);
  EXPECT_EQ(mount("/nothing"), mount3::Status::kNoEnt);
  EXPECT_EQ(mount("/a/file"), mount3::Status::kNotDir);
  EXPECT_EQ(mount("/locked"), mount3::Status::kAcces);
  EXPECT_EQ(mount("/a/.."), mount3::Status::kAcces);
  EXPECT_EQ(mount("relative"), mount3::Status::kAcces);
  EXPECT_EQ(mount("/" + std::string(256, 'x')), mount3::Status::kNameTooLong);
}

TEST_F(MountTest, ATreesExportsCountBelowIt) {
  names_->tree_of_a = TreeId{7};
  Settings settings = settings_of(config_);
  settings.exports.push_back({.path = "/a", .clients = Network::of_v4(0x0a4d0200, 0xffffff00)});
  settings.exports.push_back({.path = "/c", .clients = Network::of_v4(0x0a4d0200, 0xffffff00)});
  settings.trees[TreeId{7}] = {.path = "/a", .above = {}};
  settings_.set(settings);
  constexpr std::uint32_t kOther = 0x0a4d0202;
  EXPECT_EQ(mount("/"), mount3::Status::kOk);
  EXPECT_EQ(mount("/a"), mount3::Status::kAcces);
  EXPECT_EQ(mount("/a/b"), mount3::Status::kAcces);
  EXPECT_EQ(mount("/a/none"), mount3::Status::kAcces) << "what is not there is not told either";
  EXPECT_EQ(mount("/none"), mount3::Status::kNoEnt);
  EXPECT_EQ(mount("/", nullptr, kOther), mount3::Status::kAcces);
  EXPECT_EQ(mount("/none", nullptr, kOther), mount3::Status::kAcces);
  std::uint64_t fileid = 0;
  EXPECT_EQ(mount("/a", &fileid, kOther), mount3::Status::kOk);
  EXPECT_EQ(fileid, 2u);
  EXPECT_EQ(mount("/a/b", &fileid, kOther), mount3::Status::kOk);
  EXPECT_EQ(mount("/a/none", nullptr, kOther), mount3::Status::kNoEnt);
  const unsigned looked = names_->looked;
  EXPECT_EQ(mount("/a", nullptr, kOther, 1024), mount3::Status::kAcces);
  EXPECT_EQ(mount("/a", nullptr, 0x0a4d0902), mount3::Status::kAcces);
  EXPECT_EQ(names_->looked, looked) << "nobody asks for whom no export lets in";
  Buffer results = call(*mount_, 5, {});
  std::vector<mount3::ExportEntry> exports;
  ASSERT_TRUE(decode(results.view(), exports));
  std::vector<std::string> paths;
  for (const mount3::ExportEntry& entry : exports) paths.push_back(entry.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"/", "/a"})) << "/c is no tree";
}

TEST_F(MountTest, ASecureExportIsForReservedPorts) {
  EXPECT_EQ(mount("/", nullptr, 0x0a4d0102, 1023), mount3::Status::kOk);
  EXPECT_EQ(mount("/", nullptr, 0x0a4d0102, 1024), mount3::Status::kAcces);
  EXPECT_EQ(metrics_.counter("proxy_mounts_unreserved_ports_total").value(), 1u);
  EXPECT_EQ(metrics_.counter("proxy_mounts_refused_total").value(), 1u);
  config_.exports[0].secure = false;
  settings_.set(settings_of(config_));
  EXPECT_EQ(mount("/", nullptr, 0x0a4d0102, 1024), mount3::Status::kOk);
}

TEST_F(MountTest, ExportsComeAndGoWhileItServes) {
  EXPECT_EQ(mount("/"), mount3::Status::kOk);
  EXPECT_EQ(mount("/", nullptr, 0x0a4d0902), mount3::Status::kAcces);
  config_.exports[0] = {.clients = Network::of_v4(0x0a4d0900, 0xffffff00)};
  settings_.set(settings_of(config_));
  EXPECT_EQ(mount("/"), mount3::Status::kAcces);
  EXPECT_EQ(mount("/", nullptr, 0x0a4d0902), mount3::Status::kOk);
}

TEST_F(MountTest, AnExportBelowTheRootIsTheRootOfTheVolume) {
  config_.volume.export_path = "/data/volume";
  settings_.set(settings_of(config_));
  std::uint64_t fileid = 0;
  EXPECT_EQ(mount("/data/volume", &fileid), mount3::Status::kOk);
  EXPECT_EQ(fileid, 1u);
  EXPECT_EQ(mount("/data/volume/a", &fileid), mount3::Status::kOk);
  EXPECT_EQ(fileid, 2u);
  EXPECT_EQ(mount("/data"), mount3::Status::kAcces);
  EXPECT_EQ(mount("/data/volumex"), mount3::Status::kAcces);
}

TEST_F(MountTest, DumpShowsWhoMountedAndExportsShowNetworks) {
  mount("/a");
  mount("/");
  std::vector<mount3::MountEntry> mounts;
  ASSERT_TRUE(mount3::decode(call(*mount_, 2, {}).view(), mounts));
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_EQ(mounts[1].path, "/a");
  EXPECT_EQ(mounts[1].host, "10.77.1.2");
  rpc::XdrWriter arguments;
  mount3::encode_path(arguments, "/a");
  call(*mount_, 3, arguments.view());
  ASSERT_TRUE(mount3::decode(call(*mount_, 2, {}).view(), mounts));
  EXPECT_EQ(mounts.size(), 1u);
  call(*mount_, 4, {});
  ASSERT_TRUE(mount3::decode(call(*mount_, 2, {}).view(), mounts));
  EXPECT_TRUE(mounts.empty());
  std::vector<mount3::ExportEntry> exports;
  ASSERT_TRUE(mount3::decode(call(*mount_, 5, {}).view(), exports));
  ASSERT_EQ(exports.size(), 1u);
  EXPECT_EQ(exports[0].path, "/");
  EXPECT_THAT(exports[0].groups, ElementsAre("10.77.1.0/24", "127.0.0.1/32"));
}

TEST_F(MountTest, ExportsOfIpv6AreForItsClients) {
  config_.exports = {{.clients = parse_network("fd77:1::/64").value()},
                     {.clients = parse_network("0.0.0.0/0").value()}};
  settings_.set(settings_of(config_));
  EXPECT_EQ(mount("/", nullptr, parse_address("fd77:1::5").value()), mount3::Status::kOk);
  EXPECT_EQ(mount("/", nullptr, parse_address("fd77:2::5").value()), mount3::Status::kAcces);
  EXPECT_EQ(mount("/", nullptr, 0x01020304), mount3::Status::kOk);
  std::vector<mount3::ExportEntry> exports;
  ASSERT_TRUE(mount3::decode(call(*mount_, 5, {}).view(), exports));
  EXPECT_THAT(exports[0].groups, ElementsAre("fd77:1::/64", "0.0.0.0/0"));
  std::vector<mount3::MountEntry> mounts;
  ASSERT_TRUE(mount3::decode(call(*mount_, 2, {}).view(), mounts));
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_EQ(mounts[0].host == "fd77:1::5" || mounts[1].host == "fd77:1::5", true);
}

TEST_F(MountTest, WhatAClientIsRememberedForIsBounded) {
  for (std::size_t i = 1; i <= 100; ++i) {
    std::string path = "/";
    for (std::size_t n = 0; n < i; ++n) path += "./";
    EXPECT_EQ(mount(path + "a"), mount3::Status::kOk);
  }
  std::vector<mount3::MountEntry> mounts;
  ASSERT_TRUE(mount3::decode(call(*mount_, 2, {}).view(), mounts));
  EXPECT_EQ(mounts.size(), 64u);
}

TEST_F(MountTest, PortmapKnowsThePortsOfTheVirtualAddress) {
  PortmapProgram portmap(config_.proxy);
  auto port = [&](std::uint32_t program, std::uint32_t version, std::uint32_t protocol) {
    rpc::XdrWriter arguments;
    portmap2::encode(arguments, portmap2::Mapping{program, version, protocol, 0});
    std::uint32_t found = 0;
    EXPECT_TRUE(portmap2::decode_port(call(portmap, 3, arguments.view()).view(), found));
    return found;
  };
  EXPECT_EQ(port(100003, 3, portmap2::kTcp), 2049u);
  EXPECT_EQ(port(100003, 3, portmap2::kUdp), 2049u);
  EXPECT_EQ(port(100227, 3, portmap2::kTcp), 2049u);
  EXPECT_EQ(port(100005, 3, portmap2::kTcp), 20048u);
  EXPECT_EQ(port(100005, 1, portmap2::kUdp), 20048u);
  EXPECT_EQ(port(100021, 4, portmap2::kTcp), 20048u);
  EXPECT_EQ(port(100021, 4, portmap2::kUdp), 20048u);
  EXPECT_EQ(port(100024, 1, portmap2::kTcp), 20048u);
  EXPECT_EQ(port(100024, 1, portmap2::kUdp), 20048u);
  EXPECT_EQ(port(100011, 1, portmap2::kUdp), 20048u);
  EXPECT_EQ(port(100011, 2, portmap2::kTcp), 20048u);
  EXPECT_EQ(port(100026, 1, portmap2::kTcp), 0u);
  std::vector<portmap2::Mapping> all;
  ASSERT_TRUE(portmap2::decode(call(portmap, 4, {}).view(), all));
  EXPECT_EQ(all.size(), 20u);
}

TEST_F(MountTest, RpcbindKnowsTheAddressesOfBothFamilies) {
  config_.proxy.virtual_address = 0x0a4d0001;
  config_.proxy.second_address = parse_address("fd77::1").value();
  RpcbindProgram rpcbind(config_.proxy, rpcbind4::kVersion), older(config_.proxy, rpcbind4::kOlderVersion);
  auto address = [&](RpcbindProgram& at, std::uint32_t procedure, std::uint32_t program,
                     std::uint32_t version, std::string netid) {
    rpc::XdrWriter arguments;
    rpcbind4::encode(
        arguments, rpcbind4::Registration{.program = program, .version = version, .netid = std::move(netid)});
    std::string found;
    EXPECT_TRUE(rpcbind4::decode_address(call(at, procedure, arguments.view()).view(), found));
    return found;
  };
  const std::string four = address_text(config_.proxy.virtual_address);
  EXPECT_EQ(address(rpcbind, 3, 100003, 3, "tcp6"), "fd77::1.8.1");
  EXPECT_EQ(address(older, 3, 100003, 3, "udp6"), "fd77::1.8.1");
  EXPECT_EQ(address(rpcbind, 3, 100003, 3, "tcp"), four + ".8.1");
  EXPECT_EQ(address(rpcbind, 3, 100005, 1, "udp6"), "fd77::1.78.80");
  EXPECT_EQ(address(rpcbind, 9, 100005, 1, "udp6"), "") << "GETVERSADDR wants that version";
  EXPECT_EQ(address(rpcbind, 9, 100005, 3, "udp6"), "fd77::1.78.80");
  EXPECT_EQ(address(rpcbind, 3, 100003, 3, ""), four + ".8.1") << "as it was asked, over TCP and IPv4";
  EXPECT_EQ(address(rpcbind, 3, 100003, 3, "local"), "");
  EXPECT_EQ(address(rpcbind, 3, 100026, 1, "tcp6"), "");
  std::vector<rpcbind4::Registration> all;
  ASSERT_TRUE(rpcbind4::decode(call(rpcbind, 4, {}).view(), all));
  EXPECT_EQ(all.size(), 40u);
  config_.proxy.second_address = {};
  EXPECT_EQ(address(rpcbind, 3, 100003, 3, "tcp6"), "");
}

TEST(WriteBackTest, DirtyEntriesAreToldWithinAPassOfTheCache) {
  ToyEnsemble ensemble;
  rpc::SocketChannel channel(ensemble.loop, {.keys = &ensemble.keys, .generation = nullptr});
  WriteBack write_back(ensemble.loop, channel, ensemble.memory.tables(), *ensemble.cache, *ensemble.codec,
                       ensemble.metrics);
  write_back.start(1s);
  auto client = ensemble.connect();
  ensemble.learn(5);
  ensemble.ask(*client, ensemble.write_call(Xid{1}, 5, 0, pattern(1000, 1)));
  auto& directory = ensemble.server(Role::kDirectory);
  directory.stop();
  Counter& failures = ensemble.metrics.counter("proxy_attribute_merge_failures_total");
  ASSERT_TRUE(ensemble.run_until([&] { return failures.value() > 0; }));
  EXPECT_TRUE(ensemble.authority->merges.empty());
  directory.start();  // what could not be told is told later
  ASSERT_TRUE(ensemble.run_until([&] { return ensemble.authority->merges.size() == 1; }));
  EXPECT_EQ(ensemble.authority->merges[0], std::pair(std::uint64_t{5}, std::uint64_t{1000}));
  ensemble.run_until([] { return false; }, 1500ms);
  EXPECT_EQ(ensemble.authority->merges.size(), 1u);
  // A site that is bound to another server: the changes are kept until they are told to the right one.
  ensemble.authority->owner = false;
  ensemble.ask(*client, ensemble.write_call(Xid{2}, 5, 1000, pattern(500, 1)));
  const std::uint64_t before = failures.value();
  ASSERT_TRUE(ensemble.run_until([&] { return failures.value() > before; }));
  ensemble.authority->owner = true;
  ASSERT_TRUE(ensemble.run_until([&] { return ensemble.authority->merges.size() == 2; }));
  EXPECT_EQ(ensemble.authority->merges[1], std::pair(std::uint64_t{5}, std::uint64_t{1500}));
  Counter& told = ensemble.metrics.counter("proxy_attribute_merges_total");
  ASSERT_TRUE(ensemble.run_until([&] { return told.value() == 2; }));  // answered: nothing is under way
}

}  // namespace
}  // namespace slice::proxy::testing
