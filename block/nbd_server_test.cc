// The NBD server as its clients see it, good and hostile ones, over loopback and a unix socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "block/testing/nbd_server_fixture.h"
#include "rpc/testing/certificates.h"

namespace slice::block::testing {
namespace {

using nbd::Command;
using nbd::ErrorNumber;
using nbd::Option;
using nbd::OptionReply;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::StartsWith;

TEST_F(NbdServerTest, GoTellsSizeFlagsAndBlockSizes) {
  serve();
  auto client = connect();
  client->greet();
  const auto all = client->option(Option::kGo, NbdClient::export_request("disk", {nbd::Info::kName}).view());
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(to_hex(as_bytes(all[0].data)), "00000000000000800000016d");
  EXPECT_EQ(to_hex(as_bytes(all[1].data)), "0003000000010000100002000000");
  EXPECT_EQ(all[2].data, std::string("\0\1disk", 6));
  EXPECT_EQ(all[3].type, OptionReply::kAck);
  EXPECT_EQ(client->write(0, pattern(512, 1)), ErrorNumber::kNone);
}

TEST_F(NbdServerTest, InfoOpensOnceAndGoTakesIt) {
  serve();
  auto client = connect();
  client->greet();
  EXPECT_EQ(client->outcome(Option::kInfo, NbdClient::export_request("disk").view()), OptionReply::kAck);
  EXPECT_EQ(client->go("disk"), OptionReply::kAck);
  EXPECT_EQ(devices.opens, 1);
  EXPECT_EQ(MemoryDevice::alive, 1);
  client.reset();
  EXPECT_TRUE(until([] { return MemoryDevice::alive == 0; }));
}

TEST_F(NbdServerTest, ExportNameWithAndWithoutZeroes) {
  serve();
  auto plain = connect(), without = connect();
  plain->greet(nbd::kFixedNewstyle);
  plain->send_option(Option::kExportName, as_bytes("disk"));
  const std::string all = plain->receive(10 + 124);
  EXPECT_EQ(to_hex(as_bytes(all).first(10)), "0000000000800000016d");
  EXPECT_EQ(all.substr(10), std::string(124, 0));
  EXPECT_EQ(plain->write(0, pattern(512, 1)), ErrorNumber::kNone);
  without->greet();
  without->send_option(Option::kExportName, as_bytes("other"));
  EXPECT_EQ(without->receive(10).size(), 10u);
  EXPECT_EQ(without->write(0, pattern(512, 1)), ErrorNumber::kNone);

  auto unknown = connect();
  unknown->greet();
  unknown->send_option(Option::kExportName, as_bytes("nothing"));
  EXPECT_TRUE(unknown->closes());
  EXPECT_EQ(refused("unknown_export"), 1u);
}

TEST_F(NbdServerTest, ListsAndEndsWhenAsked) {
  serve();
  auto client = connect();
  client->greet();
  const auto all = client->option(Option::kList);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].data, std::string("\0\0\0\4disk", 8));
  EXPECT_EQ(all[1].data, std::string("\0\0\0\5other", 9));
  EXPECT_EQ(client->outcome(Option::kList, as_bytes("x")), OptionReply::kInvalid);
  EXPECT_EQ(client->outcome(Option::kAbort), OptionReply::kAck);
  EXPECT_TRUE(client->closes());
}

TEST_F(NbdServerTest, OptionsThatAreRefused) {
  serve();
  auto client = connect();
  client->greet();
  EXPECT_EQ(client->outcome(Option{77}, as_bytes("whatever")), OptionReply::kUnsupported);
  EXPECT_EQ(client->outcome(Option::kStartTls), OptionReply::kPolicy);
  EXPECT_EQ(client->go("nothing"), OptionReply::kUnknownExport);
  EXPECT_EQ(client->go(""), OptionReply::kUnknownExport) << "there are two";
  EXPECT_EQ(client->outcome(Option::kGo, as_bytes("abc")), OptionReply::kInvalid);
  EXPECT_EQ(client->go(std::string(nbd::kLongestName + 1, 'x')), OptionReply::kUnknownExport);
  EXPECT_EQ(client->outcome(Option::kStructuredReply, as_bytes("x")), OptionReply::kInvalid);
  EXPECT_EQ(client->outcome(Option{78}, as_bytes(std::string(100'000, 'x'))), OptionReply::kTooBig);
  devices.failure = Errc::kUnavailable;
  EXPECT_EQ(client->go("disk"), OptionReply::kShutdown);
  devices.failure = Errc::kDenied;
  EXPECT_EQ(client->go("disk"), OptionReply::kPolicy);
  EXPECT_EQ(refused("cannot_open"), 2u);
  devices.failure = {};
  devices.sizes.erase("other");
  EXPECT_EQ(client->go(""), OptionReply::kAck) << "the only one";
}

TEST_F(NbdServerTest, WritesReadsZeroesAndFlushes) {
  serve();
  for (const bool structured : {false, true}) {
    auto client = open("disk", structured);
    const auto disk = device();
    const std::string data = pattern(3 << 20, structured ? 3 : 4);
    EXPECT_EQ(client->write(12345, data), ErrorNumber::kNone);
    EXPECT_EQ(disk->durable_changes, 0);
    EXPECT_EQ(client->write(12345, data.substr(0, 100), nbd::kFua), ErrorNumber::kNone);
    EXPECT_EQ(disk->durable_changes, 1);
    const auto whole = client->ask(Command::kRead, 12345, 3 << 20);
    EXPECT_TRUE(whole.data == data);
    EXPECT_EQ(whole.structured, structured);
    EXPECT_EQ(client->ask(Command::kWriteZeroes, 12345, 2 << 20, nbd::kFua | nbd::kNoHole).error,
              ErrorNumber::kNone);
    EXPECT_EQ(disk->durable_changes, 2);
    EXPECT_EQ(client->ask(Command::kRead, 12345 + (2 << 20) - 4, 8).data,
              std::string(4, 0) + data.substr(2 << 20, 4));
    EXPECT_EQ(client->ask(Command::kFlush, 0, 0).error, ErrorNumber::kNone);
    EXPECT_EQ(disk->flushes, 1);
    EXPECT_EQ(client->ask(Command::kRead, 0, 0).data, "");
    EXPECT_EQ(client->write(0, ""), ErrorNumber::kNone);
    EXPECT_EQ(client->ask(Command::kWriteZeroes, 0, 0).error, ErrorNumber::kNone);
    EXPECT_EQ(disk->given_back, 0u) << "with NO_HOLE";
    EXPECT_EQ(client->ask(Command::kWriteZeroes, 0, 100).error, ErrorNumber::kNone);
    EXPECT_EQ(client->ask(Command::kTrim, 4096, 8192).error, ErrorNumber::kNone);
    EXPECT_EQ(client->ask(Command::kTrim, 0, 512, nbd::kFua).error, ErrorNumber::kNone);
    EXPECT_EQ(disk->given_back, 100u + 8192 + 512);
    EXPECT_EQ(client->ask(Command::kTrim, 4096, 512, nbd::kNoHole).error, ErrorNumber::kInvalid);
    EXPECT_EQ(client->ask(Command::kTrim, kSize - 512, 1024).error, ErrorNumber::kInvalid);
    disk->flushes = disk->durable_changes = 0;
    disk->given_back = 0;
  }
  EXPECT_EQ(metric("nbd_requests_total{command=\"write_zeroes\"}"), 6u);
  EXPECT_EQ(metric("nbd_requests_total{command=\"trim\"}"), 8u);
  EXPECT_EQ(metric("nbd_read_bytes_total"), 2u * ((3 << 20) + 8));
  EXPECT_EQ(metric("nbd_written_bytes_total"), 2u * ((3 << 20) + 100));
}

TEST_F(NbdServerTest, WhatIsOutOfRangeOrNotOffered) {
  serve();
  for (const bool structured : {false, true}) {
    auto client = open("disk", structured);
    EXPECT_EQ(client->ask(Command::kRead, kSize - 512, 1024).error, ErrorNumber::kInvalid);
    EXPECT_EQ(client->ask(Command::kRead, ~0ull - 100, 1024).error, ErrorNumber::kInvalid);
    EXPECT_EQ(client->write(kSize - 512, pattern(100'000, 1)), ErrorNumber::kNoSpace);
    EXPECT_EQ(client->ask(Command::kWriteZeroes, 0, kSize + 1).error, ErrorNumber::kNoSpace);
    EXPECT_EQ(client->ask(Command::kBlockStatus, 0, 512).error, ErrorNumber::kInvalid);
    EXPECT_EQ(client->ask(Command{55}, 0, 512).error, ErrorNumber::kInvalid);
    EXPECT_EQ(client->write(0, pattern(512, 1), nbd::kDf), ErrorNumber::kInvalid);
    EXPECT_EQ(client->write(0, pattern(512, 1)), ErrorNumber::kNone) << "it goes on";
  }
  EXPECT_EQ(metric("nbd_failures_total{error=\"ENOSPC\"}"), 4u);
  EXPECT_EQ(metric("nbd_requests_total{command=\"other\"}"), 2u);
}

TEST_F(NbdServerTest, AWriteThatIsTooLongIsSkipped) {
  serve({.longest = 1 << 20});
  auto client = open("disk", true);
  EXPECT_EQ(client->write(0, pattern((1 << 20) + 1, 1)), ErrorNumber::kInvalid);
  EXPECT_EQ(client->ask(Command::kRead, 0, (1 << 20) + 1).error, ErrorNumber::kInvalid);
  EXPECT_EQ(client->ask(Command::kRead, 0, (1 << 20) + 1, nbd::kDf).error, ErrorNumber::kOverflow);
  EXPECT_EQ(client->write(0, pattern(1 << 20, 1)), ErrorNumber::kNone);
  EXPECT_EQ(client->ask(Command::kRead, 0, 1 << 20, nbd::kDf).data, pattern(1 << 20, 1));
}

TEST_F(NbdServerTest, TheDevicesErrors) {
  serve();
  auto client = open("disk"), structured = open("disk", true);
  const std::vector<std::pair<Errc, ErrorNumber>> all{{Errc::kNoSpace, ErrorNumber::kNoSpace},
                                                      {Errc::kQuota, ErrorNumber::kNoSpace},
                                                      {Errc::kStale, ErrorNumber::kShutdown},
                                                      {Errc::kUnavailable, ErrorNumber::kIo}};
  for (const auto& [code, number] : all) {
    device()->failure = code;
    for (NbdClient* each : {client.get(), structured.get()}) {
      EXPECT_EQ(each->write(0, pattern(512, 1)), number);
      EXPECT_EQ(each->ask(Command::kRead, 0, 512).error, number);
      EXPECT_EQ(each->ask(Command::kWriteZeroes, 0, 512).error, number);
      EXPECT_EQ(each->ask(Command::kFlush, 0, 0).error, number);
    }
  }
  device()->failure = {};
  EXPECT_EQ(client->write(0, pattern(512, 1)), ErrorNumber::kNone);
}

TEST_F(NbdServerTest, RequestsRunAtOnceAndAreAnsweredAsTheyEnd) {
  serve();
  auto client = open();
  device()->holds = true;
  std::vector<std::uint64_t> cookies;
  for (unsigned i = 0; i < 10; ++i)
    cookies.push_back(client->request(Command::kWrite, i * 4096, 4096, 0, pattern(4096, i)));
  cookies.push_back(client->request(Command::kRead, 0, 512));
  ASSERT_TRUE(until([&] { return device()->held.size() == 11; }));
  device()->release(10);
  EXPECT_EQ(client->reply().cookie, cookies[10]);
  device()->release(3);
  EXPECT_EQ(client->reply().cookie, cookies[3]);
  device()->release(0);
  EXPECT_EQ(client->reply().cookie, cookies[0]);
  device()->release_all();
  std::set<std::uint64_t> rest;
  for (int i = 0; i < 8; ++i) rest.insert(client->reply().cookie);
  EXPECT_EQ(rest.size(), 8u);
  EXPECT_EQ(device()->bytes[9 * 4096 + 5], static_cast<std::uint8_t>(pattern(4096, 9)[5]));
}

TEST_F(NbdServerTest, NoMoreRequestsThanItsLimitAreUnderWay) {
  serve({.requests = 8});
  auto client = open();
  device()->holds = true;
  for (unsigned i = 0; i < 40; ++i) client->request(Command::kWrite, i * 512, 512, 0, pattern(512, i));
  pump();
  EXPECT_EQ(device()->held.size(), 8u);
  device()->release(5);
  pump();
  EXPECT_EQ(device()->held.size(), 8u);
  device()->holds = false;
  device()->release_all();
  for (unsigned i = 0; i < 40; ++i) EXPECT_EQ(client->reply().error, ErrorNumber::kNone);
}

TEST_F(NbdServerTest, NoMoreDataThanItsLimitIsHeld) {
  serve({.connection_bytes = 1 << 20});
  auto client = open();
  device()->holds = true;
  const std::string data = pattern(300 << 10, 1);
  for (unsigned i = 0; i < 6; ++i) client->request(Command::kRead, i * data.size(), 300 << 10);
  pump();
  EXPECT_EQ(device()->held.size(), 3u);
  device()->holds = false;
  device()->release_all();
  for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(client->reply().data.size(), data.size());
}

TEST_F(NbdServerTest, WhoReadsNoRepliesBlocksHimselfOnly) {
  serve({.connections = 4, .connection_bytes = 4 << 20, .bytes = 16 << 20});
  std::vector<std::unique_ptr<NbdClient>> deaf;
  for (int i = 0; i < 3; ++i) {
    deaf.push_back(connect(false));
    Buffer flags(4), go;
    store_be(flags.data(), std::uint32_t{nbd::kFixedNewstyle | nbd::kNoZeroes});
    deaf.back()->send(flags);
    deaf.back()->send_option(Option::kGo, NbdClient::export_request("disk").view());
    for (unsigned k = 0; k < 40; ++k) deaf.back()->request(Command::kRead, 0, 1 << 20);
  }
  pump();
  const std::uint64_t before = metric("nbd_requests_total{command=\"read\"}");
  EXPECT_LT(before, 60u) << "not all of what they asked for";
  auto good = open();
  for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(good->ask(Command::kRead, 0, 1 << 20).data.size(), 1u << 20);
  // What they read at last they get whole.
  std::size_t total = 0;
  EXPECT_TRUE(until([&] {
    deaf[0]->take();
    total = deaf[0]->came();
    return total > 40u << 20;
  }));
}

TEST_F(NbdServerTest, WhoStandsStillWithWhatOthersNeedIsEnded) {
  serve({.connections = 4,
         .connection_bytes = 8 << 20,
         .bytes = 16 << 20,
         .longest = 8 << 20,
         .patience = 300ms});
  auto slow = open();
  auto slow_too = open("disk");
  // The beginning of a write that never comes whole.
  for (NbdClient* each : {slow.get(), slow_too.get()})
    each->request(Command::kWrite, 0, 6 << 20, 0, pattern(1000, 1));
  pump();
  auto good = open();
  EXPECT_EQ(good->ask(Command::kRead, 0, 8 << 20).data.size(), 8u << 20);
  EXPECT_TRUE(slow->closed());
  EXPECT_GE(metric("nbd_connections_ended_total{why=\"stalled\"}"), 1u);
}

TEST_F(NbdServerTest, HalfAHandshakeEndsInTime) {
  serve({.handshake = 300ms});
  auto silent = connect(), half = connect(), good = open();
  half->greet();
  half->send(as_bytes("IHAVE"));
  EXPECT_TRUE(silent->closes());
  EXPECT_TRUE(half->closes());
  EXPECT_EQ(refused("slow"), 2u);
  EXPECT_EQ(good->write(0, pattern(512, 1)), ErrorNumber::kNone) << "it has its device";
}

TEST_F(NbdServerTest, AnOpenThatTakesTooLong) {
  serve({.handshake = 300ms});
  devices.holds = true;
  auto client = connect();
  client->greet();
  client->send_option(Option::kGo, NbdClient::export_request("disk").view());
  EXPECT_TRUE(client->closes());
  devices.release.set(true);
  pump();
  EXPECT_EQ(MemoryDevice::alive, 0);
}

TEST_F(NbdServerTest, OptionsAreCountedAndFloodsEnd) {
  serve({.options = 10});
  auto client = connect();
  client->greet();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client->outcome(Option{77}), OptionReply::kUnsupported);
  client->send_option(Option{77});
  EXPECT_TRUE(client->closes());
  EXPECT_EQ(refused("too_many_options"), 1u);
  auto flood = connect();
  flood->greet();
  for (int i = 0; i < 10'000 && !flood->closed(); ++i) flood->send_option(Option::kList);
  EXPECT_TRUE(flood->closes());
}

TEST_F(NbdServerTest, WhatIsNoNbdIsClosed) {
  serve();
  auto flags = connect(), option = connect(), request = open(), name = connect();
  flags->greet(0x80000003);
  EXPECT_TRUE(flags->closes());
  option->greet();
  option->send(as_bytes("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(option->closes());
  name->greet();
  name->send_option(Option::kExportName, as_bytes(std::string(10'000, 'x')));
  EXPECT_TRUE(name->closes());
  EXPECT_EQ(refused("malformed"), 3u);
  request->send(as_bytes(std::string(28, 'x')));
  EXPECT_TRUE(request->closes());
  EXPECT_EQ(metric("nbd_connections_ended_total{why=\"malformed\"}"), 1u);
}

TEST_F(NbdServerTest, AConnectionInPieces) {
  serve();
  auto client = connect();
  client->greet();
  Buffer all;
  const Buffer go = NbdClient::export_request("disk");
  nbd::encode(all, nbd::OptionHeader{Option::kGo, static_cast<std::uint32_t>(go.size())});
  all.append(go.view());
  const std::string data = pattern(700, 9);
  nbd::encode(all, nbd::Request{.command = Command::kWrite, .cookie = 1, .offset = 99, .length = 700});
  all.append(as_bytes(data));
  for (std::size_t i = 0; i < all.size(); i += 7) {
    client->send(all.view().subspan(i, std::min<std::size_t>(7, all.size() - i)));
    pump(1ms);
  }
  ASSERT_TRUE(until([&] { return client->came() >= 16 + 84; }));
  EXPECT_TRUE(std::equal(data.begin(), data.end(), device()->bytes.begin() + 99,
                         [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }));
}

TEST_F(NbdServerTest, DisconnectingAnswersWhatIsUnderWay) {
  serve();
  auto client = open();
  device()->holds = true;
  client->request(Command::kWrite, 0, 512, 0, pattern(512, 1));
  client->request(Command::kDisconnect, 0, 0);
  pump();
  EXPECT_FALSE(client->closed());
  device()->release_all();
  EXPECT_EQ(client->reply().error, ErrorNumber::kNone);
  EXPECT_TRUE(client->closes());
  EXPECT_EQ(MemoryDevice::alive, 0);
  EXPECT_EQ(server->connections(), 0u);
}

TEST_F(NbdServerTest, WhoGoesLeavesTheDeviceToWhatIsUnderWay) {
  serve();
  auto client = open();
  device()->holds = true;
  client->request(Command::kWrite, 0, 512, 0, pattern(512, 1));
  client->request(Command::kRead, 0, 1 << 20);
  client->request(Command::kWrite, 0, 1 << 20, 0, pattern(512, 1));  // most of it never comes
  const auto before = device();
  ASSERT_TRUE(until([&] { return before->held.size() == 2; }));
  client.reset();
  ASSERT_TRUE(until([&] { return server->connections() == 0; }));
  before->release(0);
  EXPECT_EQ(before->bytes[5], static_cast<std::uint8_t>(pattern(512, 1)[5]));
  EXPECT_EQ(before.use_count(), 2) << "this, and the read";
  before->release(0);
  EXPECT_EQ(before.use_count(), 1);
  EXPECT_EQ(metric("nbd_connections"), 0u);
}

TEST_F(NbdServerTest, TheServerMayEndBeforeWhatIsUnderWay) {
  serve();
  auto client = open();
  const auto held = device();
  held->holds = true;
  client->request(Command::kWrite, 0, 512, 0, pattern(512, 1));
  client->request(Command::kRead, 0, 512);
  ASSERT_TRUE(until([&] { return held->held.size() == 2; }));
  server.reset();
  EXPECT_TRUE(client->closes());
  held->release_all();
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(NbdServerTest, FinishingAnswersWhatIsUnderWay) {
  serve();
  auto client = open(), idle = open("other"), half = connect(), within = open();
  half->greet();
  device()->holds = true;
  client->request(Command::kWrite, 0, 512, 0, pattern(512, 1));
  within->request(Command::kWrite, 0, 1 << 20, 0, pattern(512, 1));  // most of it never comes
  ASSERT_TRUE(until([&] { return device()->held.size() == 1; }));
  server->finish();
  EXPECT_TRUE(idle->closes());
  EXPECT_TRUE(half->closes());
  EXPECT_TRUE(within->closes());
  EXPECT_EQ(server->connections(), 1u);
  client->request(Command::kWrite, 0, 512, 0, pattern(512, 1));
  pump();
  EXPECT_EQ(device()->held.size(), 1u) << "no more are taken";
  device()->release_all();
  EXPECT_EQ(client->reply().error, ErrorNumber::kNone);
  EXPECT_TRUE(client->closes());
  EXPECT_EQ(server->connections(), 0u);
  EXPECT_EQ(MemoryDevice::alive, 0);
}

TEST_F(NbdServerTest, TooManyConnections) {
  serve({.connections = 4});
  std::vector<std::unique_ptr<NbdClient>> all;
  for (int i = 0; i < 3; ++i) all.push_back(open());
  auto idle = connect();
  idle->greet();
  all.push_back(open());
  EXPECT_TRUE(idle->closes()) << "its place was needed";
  auto more = connect();
  EXPECT_TRUE(more->closes());
  EXPECT_EQ(refused("crowded"), 2u);
  for (const auto& each : all) EXPECT_EQ(each->write(0, pattern(512, 1)), ErrorNumber::kNone);
  all.pop_back();
  EXPECT_TRUE(until([&] { return server->connections() == 3; }));
  EXPECT_EQ(open()->write(0, pattern(512, 1)), ErrorNumber::kNone);
}

TEST_F(NbdServerTest, StrangersAreClosed) {
  serve({.takes = [](IpAddress address) { return address != kLoopback; }});
  EXPECT_TRUE(connect()->closes());
  EXPECT_EQ(refused("stranger"), 1u);
}

TEST_F(NbdServerTest, OverAUnixSocket) {
  serve({.takes = [](IpAddress) { return false; }});
  const std::string path = folder + "/nbd";
  ASSERT_TRUE(server->listen(path));
  struct stat found{};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0660u);
  NbdClient client(loop, path);
  client.open("disk", true);
  EXPECT_EQ(client.write(0, pattern(1 << 20, 1)), ErrorNumber::kNone);
  EXPECT_EQ(client.ask(Command::kRead, 0, 1 << 20).data, pattern(1 << 20, 1));
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(NbdServerTest, PathsThatAreThereAlready) {
  serve();
  const std::string path = folder + "/nbd", file = folder + "/file";
  std::ofstream(file) << "kept";
  EXPECT_EQ(server->listen(file).error().code, Errc::kExists);
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(server->listen(std::string(200, 'x')).error().code, Errc::kInvalid);
  ASSERT_TRUE(server->listen(path));
  EXPECT_EQ(server->listen(path).error().code, Errc::kExists) << "it is served";

  // What a process leaves that is killed.
  const std::string stale = folder + "/stale";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(stale.begin(), stale.end(), address.sun_path);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  ASSERT_TRUE(server->listen(stale));
  NbdClient client(loop, stale);
  client.open("disk");

  // Another's by the end.
  std::filesystem::remove(path);
  std::ofstream(path) << "another's";
  server.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(stale));
}

class NbdTlsTest : public NbdServerTest {
 protected:
  static std::unique_ptr<rpc::Tls> load(const TlsConfig& files) {
    auto tls = rpc::Tls::load(files, rpc::Tls::Peers::kClients);
    EXPECT_TRUE(tls) << tls.error().message;
    return std::move(*tls);
  }
  void begin_tls(NbdClient& client) {
    client.greet();
    ASSERT_EQ(client.outcome(Option::kStartTls), OptionReply::kAck);
    client.begin_tls(*anonymous);
  }

  rpc::testing::Authority authority{folder};
  std::unique_ptr<rpc::Tls> tls = load(authority.issue("service"));
  std::unique_ptr<rpc::Tls> anonymous =
      load({.certificate = "", .key = "", .authority = authority.path(".crt"), .revoked = ""});
};

TEST_F(NbdTlsTest, OptionsAndRequestsGoOnThroughIt) {
  serve({.tls = tls.get()});
  auto client = connect();
  begin_tls(*client);
  EXPECT_EQ(client->outcome(Option::kStartTls), OptionReply::kInvalid) << "again";
  EXPECT_EQ(client->outcome(Option::kStructuredReply), OptionReply::kAck);
  EXPECT_EQ(client->go("disk"), OptionReply::kAck);
  const std::string data = pattern(5 << 20, 2);
  EXPECT_EQ(client->write(777, data), ErrorNumber::kNone);
  EXPECT_TRUE(client->ask(Command::kRead, 777, 5 << 20).data == data);
  client->request(Command::kDisconnect, 0, 0);
  EXPECT_TRUE(client->closes());
}

TEST_F(NbdTlsTest, WhatWasAgreedUponInClearCountsNoMore) {
  serve({.tls = tls.get()});
  auto client = connect();
  client->greet();
  EXPECT_EQ(client->outcome(Option::kStructuredReply), OptionReply::kAck);
  ASSERT_EQ(client->outcome(Option::kStartTls), OptionReply::kAck);
  client->begin_tls(*anonymous);
  EXPECT_EQ(client->outcome(Option::kStructuredReply), OptionReply::kAck) << "not agreed upon before";
  auto plain = open();
  EXPECT_EQ(plain->write(0, pattern(512, 1)), ErrorNumber::kNone) << "as the client likes";
}

TEST_F(NbdTlsTest, WhereItIsWantedNothingElseIsServed) {
  serve({.tls = tls.get(), .only_tls = true});
  auto client = connect(), old = connect();
  client->greet();
  EXPECT_EQ(client->outcome(Option::kList), OptionReply::kTlsRequired);
  EXPECT_EQ(client->go("disk"), OptionReply::kTlsRequired);
  ASSERT_EQ(client->outcome(Option::kStartTls), OptionReply::kAck);
  client->begin_tls(*anonymous);
  EXPECT_EQ(client->go("disk"), OptionReply::kAck);
  old->greet();
  old->send_option(Option::kExportName, as_bytes("disk"));
  EXPECT_TRUE(old->closes());
  const std::string path = folder + "/nbd";
  ASSERT_TRUE(server->listen(path));
  NbdClient local(loop, path);
  local.open("disk");
}

TEST_F(NbdTlsTest, WhoShowsNoCertificateWhereOneIsWantedGetsNoFurther) {
  serve({.tls = tls.get(), .only_tls = true, .certificates = true});
  auto nobody = connect(), known = connect();
  nobody->greet();
  ASSERT_EQ(nobody->outcome(Option::kStartTls), OptionReply::kAck);
  nobody->begin_tls(*anonymous);
  nobody->send_option(Option::kList);
  EXPECT_TRUE(nobody->closes());
  EXPECT_EQ(refused("tls"), 1u);
  known->greet();
  ASSERT_EQ(known->outcome(Option::kStartTls), OptionReply::kAck);
  const auto own = load(authority.issue("client"));
  known->begin_tls(*own);
  EXPECT_EQ(known->go("disk"), OptionReply::kAck);
}

// Somebody between could put options of his own before the client's first encrypted ones.
TEST_F(NbdTlsTest, WhatFollowsTheWishInClearEndsIt) {
  serve({.tls = tls.get()});
  auto client = connect(), other = connect();
  client->greet();
  Buffer both;
  nbd::encode(both, nbd::OptionHeader{Option::kStartTls, 0});
  nbd::encode(both, nbd::OptionHeader{Option::kList, 0});
  client->send(both);
  EXPECT_TRUE(client->closes());
  other->greet();
  EXPECT_EQ(other->outcome(Option::kStartTls), OptionReply::kAck);
  other->send_option(Option::kList);
  EXPECT_TRUE(other->closes()) << "where a handshake is to come";
  EXPECT_EQ(refused("tls"), 2u);
}

}  // namespace
}  // namespace slice::block::testing
