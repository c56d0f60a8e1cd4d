// READ and WRITE at every alignment around the threshold and stripe boundaries, against a model of one file.
#include <gmock/gmock.h>

#include <random>

#include "proxy/testing/toy_ensemble.h"
#include "rpc/message.h"
#include "wire/listed_site.h"

namespace slice::proxy::testing {
namespace {

using wire::Role;

nfs3::Status read_result(const Buffer& reply, Xid xid, nfs3::ReadOk& ok) {
  auto header = rpc::decode_reply(reply.view());
  EXPECT_TRUE(header);
  EXPECT_EQ(header->xid, xid);
  EXPECT_EQ(header->accept_stat, rpc::AcceptStat::kSuccess);
  rpc::XdrReader in(header->results);
  nfs3::Status status{};
  EXPECT_TRUE(nfs3::decode_result(in, status, ok));
  EXPECT_TRUE(in.complete());
  return status;
}

nfs3::Status write_result(const Buffer& reply, Xid xid, nfs3::WriteOk& ok) {
  auto header = rpc::decode_reply(reply.view());
  EXPECT_TRUE(header);
  EXPECT_EQ(header->xid, xid);
  rpc::XdrReader in(header->results);
  nfs3::Status status{};
  EXPECT_TRUE(nfs3::decode_result(in, status, ok));
  EXPECT_TRUE(in.complete());
  return status;
}

struct Model {
  explicit Model(ToyOptions options = {}) : ensemble(options), client(ensemble.connect()) {}
  void write(std::uint64_t offset, const std::vector<std::uint8_t>& data) {
    Xid xid{next_xid++};
    Buffer reply = ensemble.ask(*client, ensemble.write_call(xid, 42, offset, data));
    nfs3::WriteOk ok;
    ASSERT_EQ(write_result(reply, xid, ok), nfs3::Status::kOk);
    ASSERT_EQ(ok.count, data.size());
    EXPECT_EQ(ok.verifier.value, 7u);
    EXPECT_EQ(ok.committed, nfs3::Stable::kUnstable);
    if (file.size() < offset + data.size()) file.resize(offset + data.size());
    std::copy(data.begin(), data.end(), file.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  void read(std::uint64_t offset, std::uint32_t count) {
    Xid xid{next_xid++};
    Buffer reply = ensemble.ask(*client, ensemble.read_call(xid, 42, offset, count));
    nfs3::ReadOk ok;
    ASSERT_EQ(read_result(reply, xid, ok), nfs3::Status::kOk);
    std::uint64_t expected = offset >= file.size() ? 0 : std::min<std::uint64_t>(count, file.size() - offset);
    ASSERT_EQ(ok.count, expected) << "offset " << offset << " count " << count;
    ASSERT_EQ(ok.data.size(), expected);
    EXPECT_EQ(ok.eof, offset + expected >= file.size()) << "offset " << offset << " count " << count;
    EXPECT_TRUE(std::equal(ok.data.begin(), ok.data.end(),
                           file.begin() + static_cast<std::ptrdiff_t>(std::min(offset, file.size()))));
    if (ok.attributes) EXPECT_EQ(ok.attributes->size, file.size());
  }
  ToyEnsemble ensemble;
  std::unique_ptr<WireClient> client;
  std::vector<std::uint8_t> file;
  std::uint32_t next_xid = 1;
};

// With servers behind sockets, and with servers that share the worker's process.
class Split : public ::testing::TestWithParam<bool> {
 protected:
  static ToyOptions options(ToyOptions others = {}) {
    others.local = GetParam();
    return others;
  }
};
INSTANTIATE_TEST_SUITE_P(Servers, Split, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "OfThisProcess" : "BehindSockets"; });

TEST_P(Split, EveryAlignmentAroundTheBoundaries) {
  Model model(options({.threshold = 8192, .stripe_shift = 12}));
  model.write(0, pattern(3 * 8192 + 17, 1));
  const std::vector<std::int64_t> near{-4097, -4096, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 4095, 4096, 4097};
  std::uint32_t seed = 2;
  for (std::int64_t boundary : {8192, 12288, 16384}) {
    for (std::int64_t from : near) {
      for (std::int64_t to : near) {
        if (to <= from) continue;
        auto offset = static_cast<std::uint64_t>(boundary + from);
        auto count = static_cast<std::uint32_t>(to - from);
        model.write(offset, pattern(count, ++seed));
        model.read(offset, count);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  model.read(0, 1 << 20);
}

TEST_P(Split, RandomTraffic) {
  Model model(options({.threshold = 64 << 10, .stripe_shift = 15}));
  std::mt19937 random(7);
  for (int i = 0; i < 400 && !::testing::Test::HasFatalFailure(); ++i) {
    std::uint64_t offset = random() % (600 << 10);
    auto count = static_cast<std::uint32_t>(1 + random() % (300 << 10));
    if (random() % 2 == 0) {
      model.write(offset, pattern(count, static_cast<std::uint32_t>(i)));
    } else {
      model.read(offset, count);
    }
    if (i == 200) model.ensemble.learn(42);
  }
}

TEST_P(Split, LargestRecordsBothWays) {
  Model model(options());
  model.write(0, pattern(1 << 20, 1));
  model.write((1 << 20) - 1, pattern(1 << 20, 2));
  model.read(0, 1 << 20);
  model.read(1, 1 << 20);
  model.read((1 << 20) - 3, 1 << 20);
  model.read(4 << 20, 1 << 20);
}

TEST_P(Split, WholeStripesOfOneMebibyteAreCutThrough) {
  Model model(options({.threshold = 1 << 20, .stripe_shift = 20}));
  model.write(0, pattern(1 << 20, 1));
  model.write(1 << 20, pattern(1 << 20, 2));
  model.write((1 << 20) - 77777, pattern(1 << 20, 3));
  model.ensemble.learn(42);
  model.read(0, 1 << 20);
  model.read(1 << 20, 1 << 20);
  model.read((1 << 20) - 77777, 1 << 20);
  model.read((2 << 20) - 77777 - 1003, 1003);
}

TEST_P(Split, HolesAreZeros) {
  Model model(options());
  model.write(700 << 10, pattern(10, 1));  // everything before it is a hole
  model.read(0, 1 << 20);
  model.read(60 << 10, 64 << 10);
  for (auto& server : model.ensemble.servers) server->stale_size = true;
  Xid xid{9000};
  Buffer reply = model.ensemble.ask(*model.client, model.ensemble.read_call(xid, 42, 600 << 10, 200 << 10));
  nfs3::ReadOk ok;
  ASSERT_EQ(read_result(reply, xid, ok), nfs3::Status::kOk);
  EXPECT_EQ(ok.count, (100u << 10) + 10);
  EXPECT_TRUE(
      std::all_of(ok.data.begin(), ok.data.begin() + (100 << 10), [](std::uint8_t b) { return b == 0; }));
}

TEST_P(Split, ShortWriteEndsTheRun) {
  Model model(options());
  for (auto& server : model.ensemble.servers) server->write_at_most = 1000;
  Xid xid{1};
  Buffer reply = model.ensemble.ask(*model.client,
                                    model.ensemble.write_call(xid, 42, (64 << 10) - 500, pattern(5000, 1)));
  nfs3::WriteOk ok;
  ASSERT_EQ(write_result(reply, xid, ok), nfs3::Status::kOk);
  EXPECT_EQ(ok.count, 1500u);
}

TEST_P(Split, FailureOfALaterPieceIsAShortAnswer) {
  Model model(options());
  model.write(0, pattern(256 << 10, 1));
  for (std::size_t i = 0; i < 3; ++i) model.ensemble.server(Role::kStorage, i).fail_with = nfs3::Status::kIo;
  Xid xid{100};
  Buffer reply = model.ensemble.ask(*model.client, model.ensemble.read_call(xid, 42, 0, 256 << 10));
  nfs3::ReadOk ok;
  ASSERT_EQ(read_result(reply, xid, ok), nfs3::Status::kOk);
  EXPECT_EQ(ok.count, 64u << 10);
  EXPECT_FALSE(ok.eof);
  reply = model.ensemble.ask(*model.client, model.ensemble.read_call(Xid{101}, 42, 64 << 10, 128 << 10));
  EXPECT_EQ(read_result(reply, Xid{101}, ok), nfs3::Status::kIo);
  nfs3::WriteOk written;
  reply = model.ensemble.ask(*model.client,
                             model.ensemble.write_call(Xid{102}, 42, 60 << 10, pattern(128 << 10, 2)));
  ASSERT_EQ(write_result(reply, Xid{102}, written), nfs3::Status::kOk);
  EXPECT_EQ(written.count, 4u << 10);
  reply = model.ensemble.ask(*model.client,
                             model.ensemble.write_call(Xid{103}, 42, 64 << 10, pattern(128 << 10, 2)));
  EXPECT_EQ(write_result(reply, Xid{103}, written), nfs3::Status::kIo);
}

TEST_P(Split, TheSmallestVerifierIsAnswered) {
  Model model(options());
  model.ensemble.server(Role::kSmallFile, 0).verifier = 11;
  model.ensemble.server(Role::kSmallFile, 1).verifier = 11;
  for (std::size_t i = 0; i < 3; ++i) model.ensemble.server(Role::kStorage, i).verifier = 12;
  Buffer reply = model.ensemble.ask(
      *model.client,
      model.ensemble.write_call(Xid{1}, 42, 0, pattern(128 << 10, 1), nfs3::Stable::kDataSync));
  nfs3::WriteOk ok;
  ASSERT_EQ(write_result(reply, Xid{1}, ok), nfs3::Status::kOk);
  EXPECT_EQ(ok.verifier.value, 11u);
  EXPECT_EQ(ok.committed, nfs3::Stable::kDataSync);
}

TEST_P(Split, AttributesFollowWritesOfAKnownFile) {
  Model model(options());
  model.ensemble.learn(42);
  model.write(0, pattern(200 << 10, 1));
  nfs3::ReadOk ok;
  Buffer reply = model.ensemble.ask(*model.client, model.ensemble.read_call(Xid{50}, 42, 0, 100));
  ASSERT_EQ(read_result(reply, Xid{50}, ok), nfs3::Status::kOk);
  ASSERT_TRUE(ok.attributes);
  EXPECT_EQ(ok.attributes->size, 200u << 10);
  EXPECT_EQ(ok.attributes->mtime.seconds, 2000u);
  EXPECT_EQ(ok.attributes->nlink, 1u);
  EXPECT_EQ(ok.attributes->mode, 0644u);
}

// Its entry leaves the cache while the WRITE is under way, and the bucket then fills with others' unsaved
// sizes: who heard that it was done would see the size from before it.
TEST_P(Split, AWriteThatCannotBeRememberedIsToBeSentAgain) {
  for (std::uint64_t offset : {std::uint64_t{0}, (std::uint64_t{64} << 10) - 2000}) {  // one piece, and two
    Model model(options());
    ToyEnsemble& ensemble = model.ensemble;
    ensemble.learn(42);
    for (auto& server : ensemble.servers) server->hold = true;
    Buffer call = ensemble.write_call(Xid{1}, 42, offset, pattern(5000, 1));
    model.client->send_record(call.view());
    auto held = [&ensemble] {
      std::size_t sum = 0;
      for (auto& server : ensemble.servers) sum += server->held();
      return sum;
    };
    ASSERT_TRUE(ensemble.run_until([&] { return held() == (offset == 0 ? 1u : 2u); }));
    slice_attr_bucket& bucket = ensemble.memory.tables().attributes[slice_attr_bucket_key(42)];
    for (std::uint32_t way = 0; way < SLICE_ATTR_WAYS; ++way) {
      bucket.fileid[way] = 1000 + way;
      bucket.flags[way] = SLICE_ATTR_VALID | SLICE_ATTR_DIRTY_SIZE;
    }
    for (auto& server : ensemble.servers) {
      server->hold = false;
      server->release();
    }
    ASSERT_TRUE(ensemble.run_until([&] { return model.client->replies.size() == 1; }));
    nfs3::WriteOk ok;
    EXPECT_EQ(write_result(model.client->replies[0], Xid{1}, ok), nfs3::Status::kJukebox);
    EXPECT_FALSE(ensemble.evicted.empty()) << "no place is being made";
    model.client->replies.clear();
    model.next_xid = 2;
    model.write(offset, pattern(5000, 1));  // goes without a hint: its server tells the authority first
  }
}

TEST_P(Split, OffsetsAtTheEndOfTheWorld) {
  Model model(options());
  for (std::uint64_t offset : {~std::uint64_t{0}, ~std::uint64_t{0} - 100, std::uint64_t{1} << 63,
                               (std::uint64_t{1} << 63) - 1, (std::uint64_t{1} << 63) - 65537}) {
    Buffer reply = model.ensemble.ask(*model.client, model.ensemble.read_call(Xid{1}, 42, offset, 1 << 20));
    nfs3::ReadOk ok;
    EXPECT_EQ(read_result(reply, Xid{1}, ok), nfs3::Status::kOk);
    EXPECT_EQ(ok.count, 0u);
    EXPECT_TRUE(ok.eof);
  }
  Buffer reply = model.ensemble.ask(*model.client, model.ensemble.read_call(Xid{2}, 42, 0, 0));
  nfs3::ReadOk ok;
  EXPECT_EQ(read_result(reply, Xid{2}, ok), nfs3::Status::kOk);
}

// Pieces of a block map are asked for once, and tell where requests go as soon as they are here.
TEST_P(Split, BlockMappedFilesGoWhereTheMapSays) {
  Model model(options({.handle_flags = SLICE_HANDLE_BLOCK_MAPPED}));
  model.write(0, pattern(5 << 16, 1));
  ASSERT_EQ(model.ensemble.pieces_asked_for.size(), 1u);
  EXPECT_EQ(model.ensemble.pieces_asked_for.front(), std::pair(FileId{42}, std::uint64_t{0}));
  // All of it on one site; the bytes move with it.
  wire::MapPiece piece{.number = 0, .sites = std::vector<std::uint32_t>(wire::kStripesOfPiece, 3)};
  model.ensemble.maps->put(FileId{42}, piece, model.ensemble.loop.now());
  model.ensemble.map = piece;
  model.write(1 << 16, pattern(4 << 16, 2));
  model.read(0, 5 << 16);
  EXPECT_EQ(model.ensemble.pieces_asked_for.size(), 1u);
  // On a server without any storage site, as one that came later.
  ToyServer& last = *model.ensemble.servers[5];
  ASSERT_EQ(last.role, Role::kStorage);
  last.bytes.clear();
  piece.sites.assign(wire::kStripesOfPiece, wire::listed_site({last.index}));
  model.ensemble.maps->put(FileId{42}, piece, model.ensemble.loop.now());
  model.ensemble.map = piece;
  model.write(1 << 16, pattern(4 << 16, 3));
  EXPECT_EQ(last.bytes[42].size(), 5u << 16);
}

// A map that was fetched before its servers were removed. Whoever has the stripe by the hash passes it on.
TEST_P(Split, WhatAMapHasOnServersThatWereRemovedGoesByTheHash) {
  for (const std::uint32_t kind : {SLICE_HANDLE_BLOCK_MAPPED, SLICE_HANDLE_MIRRORED}) {
    Model model(options({.handle_flags = static_cast<std::uint8_t>(kind)}));
    model.ensemble.memory.tables().config->flags |= SLICE_CONFIG_MAPS;
    constexpr std::uint32_t kRemoved = 900;
    const wire::MapPiece piece{
        .number = 0,
        .sites = std::vector<std::uint32_t>(wire::kStripesOfPiece, wire::listed_site({kRemoved}))};
    model.ensemble.maps->put(FileId{42}, piece, model.ensemble.loop.now());
    model.write(1 << 16, pattern((4 << 16) + 5, 3));
    if (kind == SLICE_HANDLE_BLOCK_MAPPED) model.read(0, 5 << 16);  // toys keep one copy
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Their maps are asked for as soon as some of them may be where the hash does not say.
TEST_P(Split, MirroredFilesGoByTheHashAsLongAsTheTablesSaySo) {
  Model model(options({.handle_flags = SLICE_HANDLE_MIRRORED}));
  model.write(1 << 16, pattern(2 << 16, 1));
  EXPECT_TRUE(model.ensemble.pieces_asked_for.empty());
  model.ensemble.memory.tables().config->flags |= SLICE_CONFIG_MAPS;
  model.write(1 << 16, pattern(2 << 16, 2));
  ASSERT_EQ(model.ensemble.pieces_asked_for.size(), 1u);
  ToyServer &first = *model.ensemble.servers[4], &second = *model.ensemble.servers[5];
  const wire::MapPiece piece{.number = 0,
                             .sites = std::vector<std::uint32_t>(
                                 wire::kStripesOfPiece, wire::listed_site({second.index, first.index}))};
  model.ensemble.maps->put(FileId{42}, piece, model.ensemble.loop.now());
  model.ensemble.map = piece;
  first.bytes.clear();
  second.bytes.clear();
  model.write(1 << 16, pattern(2 << 16, 3));
  EXPECT_EQ(second.bytes[42].size(), 3u << 16);
  EXPECT_TRUE(first.bytes[42].empty()) << "writes are for the first copy";
}

// What a node wants to be told of layouts goes along with the same call again, and with all that follow.
TEST_P(Split, AWriteIsSentAgainWithTheStampThatItsServerWants) {
  Model model(options({.handle_flags = SLICE_HANDLE_BLOCK_MAPPED}));
  std::vector<ToyServer*> nodes;
  for (auto& server : model.ensemble.servers) {
    if (server->role == Role::kStorage) nodes.push_back(server.get());
  }
  for (ToyServer* node : nodes) node->orders_since = {5, 100};
  model.write(64 << 10, pattern((5 << 16) + 17, 1));  // short and long pieces
  model.read(0, 6 << 16);
  std::size_t refused = 0;
  for (ToyServer* node : nodes) {
    refused += static_cast<std::size_t>(
        std::count(node->stamps.begin(), node->stamps.end(), rpc::LayoutStamp{0, 1}));
    node->stamps.clear();
  }
  EXPECT_GE(refused, 1u);
  EXPECT_LE(refused, 6u) << "each piece once";
  model.write(64 << 10, pattern(5 << 16, 2));
  for (ToyServer* node : nodes) EXPECT_THAT(node->stamps, ::testing::Each(rpc::LayoutStamp{5, 100}));
  EXPECT_EQ(model.ensemble.worker->legs(), 0u);
}

TEST_P(Split, AWriteThatIsAlwaysSentTooEarlyMakesItsClientWait) {
  Model model(options({.handle_flags = SLICE_HANDLE_BLOCK_MAPPED}));
  for (auto& server : model.ensemble.servers) {
    server->orders_since = {5, 100};
    server->ages = 1;
  }
  for (std::uint32_t stripes : {1u, 3u}) {
    Xid xid{stripes};
    Buffer reply = model.ensemble.ask(
        *model.client, model.ensemble.write_call(xid, 42, 64 << 10, pattern(stripes << 16, 1)));
    nfs3::WriteOk ok;
    EXPECT_EQ(write_result(reply, xid, ok), nfs3::Status::kJukebox) << "and nothing of ours behind it";
  }
}

// What nobody answers is told of, with what it waits for, each call once.
TEST(LateCalls, AreTold) {
  Model model({.late = std::chrono::milliseconds(300)});
  model.write(0, pattern(200 << 10, 1));
  for (auto& server : model.ensemble.servers) server->hold = true;
  model.client->send_record(model.ensemble.read_call(Xid{77}, 42, 0, 200 << 10).view());
  Counter& late = model.ensemble.metrics.counter("proxy_late_calls_total");
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(model.ensemble.run_until([&] { return late.value() == 1; }));
  EXPECT_FALSE(model.ensemble.run_until([&] { return late.value() > 1; }, std::chrono::milliseconds(1500)));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("a call is late: READ of file 0x2a at 0, 204800 bytes, waits for site "));
  for (auto& server : model.ensemble.servers) server->release();
  ASSERT_TRUE(model.ensemble.run_until([&] { return model.client->replies.size() == 1; }));
}

TEST(LocalCalls, WhatAServerDropsIsSentAgain) {
  Model model({.local = true});
  model.write(0, pattern(1000, 1));
  for (auto& server : model.ensemble.servers) server->drops = 1;
  auto before = model.ensemble.loop.now();
  model.read(0, 1000);
  EXPECT_LT(model.ensemble.loop.now() - before, std::chrono::seconds(3));
}

TEST(LocalCalls, AClientMayLeaveMeanwhile) {
  Model model({.local = true});
  model.write(0, pattern(200 << 10, 1));
  for (auto& server : model.ensemble.servers) server->hold = true;
  model.client->send_record(model.ensemble.read_call(Xid{77}, 42, 0, 200 << 10).view());
  auto held = [&] {
    std::size_t all = 0;
    for (auto& server : model.ensemble.servers) all += server->held();
    return all;
  };
  ASSERT_TRUE(model.ensemble.run_until([&] { return held() == 4; }));
  model.client.reset();
  ASSERT_TRUE(model.ensemble.run_until([&] { return model.ensemble.worker->clients() == 0; }));
  EXPECT_EQ(model.ensemble.worker->legs(), 0u);
  for (auto& server : model.ensemble.servers) server->release();
  model.client = model.ensemble.connect();
  model.read(0, 200 << 10);
  EXPECT_EQ(model.ensemble.worker->legs(), 0u);
}

TEST(LocalCalls, NoMemoryIsKeptOfWhatWasAnswered) {
  Model model({.local = true});
  for (int i = 0; i < 20; ++i) {
    model.write(0, pattern(1 << 20, static_cast<std::uint32_t>(i)));
    model.read(0, 1 << 20);
  }
  model.client.reset();
  ASSERT_TRUE(model.ensemble.run_until([&] { return model.ensemble.worker->clients() == 0; }));
  EXPECT_LT(model.ensemble.worker->memory_in_use(), 2u << 20) << "a chunk that is being filled, of each size";
}

}  // namespace
}  // namespace slice::proxy::testing
