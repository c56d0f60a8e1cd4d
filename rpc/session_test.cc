// Sessions: greetings, frames, and what somebody on the way can do to them.
#include "rpc/session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>

#include "rpc/frames.h"
#include "rpc/session_reader.h"
#include "rpc/testing/bulk_messages.h"
#include "rpc/testing/test_programs.h"

namespace slice::rpc {
namespace {

constexpr std::size_t kMaxRecord = 4 << 20;

std::string bytes_of(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  for (char& byte : out) byte = static_cast<char>(random());
  return out;
}

// What one side has written and the other has not read: bytes that a test may change.
class Pipe {
 public:
  Pipe() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
    int room = 16 << 20;
    ::setsockopt(ends_[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
  }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int writer() const { return ends_[0]; }
  std::string take() {
    std::string out;
    std::array<char, 64 << 10> piece;
    for (ssize_t n; (n = ::recv(ends_[1], piece.data(), piece.size(), MSG_DONTWAIT)) > 0;)
      out.append(piece.data(), static_cast<std::size_t>(n));
    return out;
  }

 private:
  int ends_[2]{};
};

// Two ends of a connection, and what is on its way.
class SessionTest : public ::testing::TestWithParam<Coverage> {
 protected:
  void SetUp() override { start(); }
  void start() {
    client.emplace(kMaxRecord, Session::to_server(client_keys));
    server.emplace(kMaxRecord, &server_keys, true);
  }
  void greet() {
    give(*server, flush(*client, to_server));
    give(*client, flush(*server, to_client));
  }
  // Everything that may leave, with `records` behind what there was.
  std::string flush(SessionReader& end, Pipe& pipe, const std::vector<std::string>& records = {}) {
    SendQueue& queue = &end == &*client ? client_queue : server_queue;
    for (const std::string& text : records) {
      Buffer record(kRecordMark);
      record.append(as_bytes(text));
      mark_record(record);
      queue.push(std::move(record));
    }
    EXPECT_EQ(queue.flush(pipe.writer(), end.session()), SendQueue::Flush::kDone);
    return pipe.take();
  }
  // The records that come of those bytes, in pieces of that size.
  static std::vector<std::string> give(SessionReader& end, const std::string& bytes,
                                       std::size_t piece = ~std::size_t{0}) {
    std::vector<std::string> records;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      std::size_t n = std::min(piece, bytes.size() - at);
      end.give(as_bytes(std::string_view(bytes).substr(at, n)));
      Buffer record;
      while (end.next(record)) records.emplace_back(as_text(record.view()));
      if (piece > bytes.size()) break;
    }
    return records;
  }

  KeyRing client_keys{std::vector{kTestKey}, Coverage::kHeads};
  KeyRing server_keys{std::vector{kTestKey}, GetParam()};
  Pipe to_server, to_client;
  SendQueue client_queue, server_queue;
  std::optional<SessionReader> client, server;
};

TEST_P(SessionTest, RecordsOfAllSizesComeWholeInAnyPieces) {
  greet();
  ASSERT_EQ(client->session()->state(), Session::State::kUp);
  ASSERT_EQ(server->session()->state(), Session::State::kUp);
  EXPECT_FALSE(server->session()->peer_is_known());
  std::vector<std::string> sent;
  unsigned seed = 0;
  for (std::size_t size :
       {0ul, 1ul, 3ul, 200ul, 1023ul, 1024ul, 1025ul, 5000ul, 65'536ul, 70'000ul, 1'048'700ul}) {
    sent.push_back(bytes_of(size, ++seed));
    if (size > 5000) continue;  // pieces of a byte take long
    sent.push_back(testing::write_message(sent.back()).bytes);
    sent.push_back(testing::read_answer(bytes_of(size, ++seed)).bytes);
  }
  for (std::size_t piece : {1ul, 7ul, 4096ul, 262'144ul}) {
    EXPECT_EQ(give(*server, flush(*client, to_server, sent), piece), sent) << piece;
    EXPECT_EQ(give(*client, flush(*server, to_client, sent), piece), sent) << piece;
  }
  EXPECT_TRUE(server->session()->peer_is_known());
  EXPECT_FALSE(server->within_record());
}

TEST_P(SessionTest, RecordsWaitForTheAnswer) {
  std::string hello = flush(*client, to_server, {"early"});
  EXPECT_TRUE(give(*server, hello).empty());
  EXPECT_EQ(flush(*client, to_server), "");
  give(*client, flush(*server, to_client));
  EXPECT_EQ(give(*server, flush(*client, to_server)), std::vector<std::string>{"early"});
}

// Each byte of the greetings and of a frame with a record counts, but for what coverage leaves out.
TEST_P(SessionTest, AChangedByteEndsIt) {
  const testing::BulkMessage message = testing::write_message(bytes_of(3000, 1));
  for (std::size_t at = 0;; at += at < 120 ? 1 : 17) {
    start();
    client_queue.clear();
    std::string hello = flush(*client, to_server);
    if (at < hello.size()) hello[at] ^= 1;
    give(*server, hello);
    if (!server->session() || server->session()->over()) continue;  // the magic, the key's name, coverage
    std::string answer = flush(*server, to_client);
    if (at >= hello.size() && at < hello.size() + answer.size()) answer[at - hello.size()] ^= 1;
    give(*client, answer);
    if (client->session()->over()) continue;
    ASSERT_GE(at, hello.size() + answer.size());
    std::string frame = flush(*client, to_server, {message.bytes});
    at = std::max(at, hello.size() + answer.size());
    std::size_t in_frame = at - hello.size() - answer.size();
    if (in_frame >= frame.size()) break;
    frame[in_frame] ^= 1;
    std::vector<std::string> came = give(*server, frame);
    bool data = GetParam() == Coverage::kHeads && in_frame >= kFrameHead + kRecordMark + message.before_data;
    EXPECT_EQ(came.empty(), !data) << in_frame;
    EXPECT_EQ(server->session()->over(), !data) << in_frame;
  }
}

TEST_P(SessionTest, FramesCannotBeSentAgainMovedOrLeftOut) {
  greet();
  std::string one = flush(*client, to_server, {"one"});
  flush(*client, to_server, {"two"});
  std::string three = flush(*client, to_server, {"three"});
  EXPECT_EQ(give(*server, one), std::vector<std::string>{"one"});
  EXPECT_TRUE(give(*server, three).empty());
  EXPECT_EQ(server->session()->state(), Session::State::kForged);

  start();
  greet();
  one = flush(*client, to_server, {"one"});
  EXPECT_EQ(give(*server, one), std::vector<std::string>{"one"});
  EXPECT_TRUE(give(*server, one).empty());
  EXPECT_EQ(server->session()->state(), Session::State::kForged);
}

// Somebody who has recorded a whole connection plays it to the server again.
TEST_P(SessionTest, ARecordedConnectionIsNoneOfTheNext) {
  std::string hello = flush(*client, to_server);
  give(*server, hello);
  give(*client, flush(*server, to_client));
  std::string frame = flush(*client, to_server, {"remove everything"});
  EXPECT_EQ(give(*server, frame).size(), 1u);
  server.emplace(kMaxRecord, &server_keys, true);
  EXPECT_TRUE(give(*server, hello + frame).empty());
  EXPECT_EQ(server->session()->state(), Session::State::kForged);
  EXPECT_FALSE(server->session()->peer_is_known());
}

// What the client says is not what the server says.
TEST_P(SessionTest, FramesAreNoneOfTheOtherDirection) {
  greet();
  std::string frame = flush(*client, to_server, {"call"});
  EXPECT_TRUE(give(*client, frame).empty());
  EXPECT_EQ(client->session()->state(), Session::State::kForged);
}

// The stronger of what both want counts, and nobody on the way can make it less.
TEST_P(SessionTest, TheStrongerCoverageCounts) {
  for (bool from_client : {true, false}) {
    const std::string data = bytes_of(100'000, 1);
    const std::string record =
        from_client ? testing::write_message(data).bytes : testing::read_answer(data).bytes;
    start();
    greet();
    SessionReader& from = from_client ? *client : *server;
    SessionReader& to = from_client ? *server : *client;
    std::string frames = flush(from, from_client ? to_server : to_client, {record});
    ASSERT_GT(frames.size(), record.size());
    frames[frames.size() - 100] ^= 1;
    EXPECT_EQ(give(to, frames).empty(), GetParam() == Coverage::kAll);
  }
}

// All but the data of READ and WRITE: what names and attributes are in is covered to its end.
TEST_P(SessionTest, LongMessagesWithoutDataAreCovered) {
  greet();
  std::string frames = flush(*client, to_server, {testing::write_message(bytes_of(100'000, 1), 17).bytes});
  frames[frames.size() - 100] ^= 1;
  EXPECT_TRUE(give(*server, frames).empty());
  EXPECT_EQ(server->session()->state(), Session::State::kForged);
}

TEST_P(SessionTest, AnotherKeyIsRefusedAndSaidSo) {
  EnsembleKey other = kTestKey;
  other[3] ^= 8;
  KeyRing stranger(other);
  client.emplace(kMaxRecord, Session::to_server(stranger));
  give(*server, flush(*client, to_server));
  EXPECT_EQ(server->session()->state(), Session::State::kUnknownKey);
  give(*client, flush(*server, to_client));
  EXPECT_EQ(client->session()->state(), Session::State::kUnknownKey);
}

// Somebody who knows the key's name, which every hello tells, and not the key.
TEST_P(SessionTest, WhoHasNotTheKeyCannotAnswer) {
  give(*client, flush(*client, to_server));
  EXPECT_EQ(client->session()->state(), Session::State::kForged);
}

TEST_P(SessionTest, KeysChangeWithoutAStop) {
  EnsembleKey next = kTestKey;
  next[0] ^= 1;
  server_keys.replace({kTestKey, next});
  greet();
  ASSERT_EQ(client->session()->state(), Session::State::kUp);
  client_keys.replace({next, kTestKey});
  server_keys.replace({next, kTestKey});
  EXPECT_TRUE(server->session()->key_is_valid());
  server_keys.replace({next});
  EXPECT_FALSE(server->session()->key_is_valid());
  EXPECT_EQ(give(*server, flush(*client, to_server, {"goes on"})).size(), 1u);  // until it is ended
  start();
  greet();
  EXPECT_EQ(client->session()->state(), Session::State::kUp);
  EXPECT_TRUE(server->session()->key_is_valid());
}

TEST_P(SessionTest, AConnectionWithoutASessionIsReadAsEver) {
  Buffer record(kRecordMark);
  record.append(as_bytes("plain"));
  mark_record(record);
  std::string bytes(as_text(record.view()));
  for (std::size_t piece : {1ul, 3ul, 100ul}) {
    server.emplace(kMaxRecord, &server_keys, true);
    EXPECT_EQ(give(*server, bytes + bytes, piece), (std::vector<std::string>{"plain", "plain"}));
    EXPECT_EQ(server->session(), nullptr);
  }
}

// Lengths are believed when they are proven: until then at most a frame's bytes are kept.
TEST_P(SessionTest, LengthsOfFramesAreNotTrusted) {
  for (auto [covered, uncovered] : {std::pair{0u, 0u},
                                    {kMaxCovered + 1, 0u},
                                    {1u, kMaxUncovered + 1},
                                    {0xffffffffu, 0xffffffffu},
                                    {0u, 100u}}) {
    start();
    greet();
    std::string frame(kFrameHead, '\0');
    store_be(reinterpret_cast<std::uint8_t*>(frame.data()), static_cast<std::uint32_t>(covered));
    store_be(reinterpret_cast<std::uint8_t*>(frame.data()) + 4, static_cast<std::uint32_t>(uncovered));
    EXPECT_TRUE(give(*server, frame + std::string(200, 'x')).empty());
    EXPECT_EQ(server->session()->state(), Session::State::kForged) << covered << " " << uncovered;
    EXPECT_LT(server->memory(), 256u << 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Coverages, SessionTest, ::testing::Values(Coverage::kHeads, Coverage::kAll),
                         [](const auto& each) { return each.param == Coverage::kHeads ? "heads" : "all"; });

// The examples of docs/formats/session.md.
TEST(Frames, GoldenBytes) {
  FrameKeys keys;
  for (std::uint8_t i = 0; i < 16; ++i) {
    keys.small[i] = i;
    keys.large[i] = static_cast<std::uint8_t>(16 + i);
  }
  Sealer sealer(keys, Coverage::kHeads);
  Buffer record(kRecordMark);
  record.append(as_bytes("abcd"));
  mark_record(record);
  iovec small{record.data(), record.size()};
  EXPECT_EQ(to_hex(sealer.seal({&small, 1}, 0).head), "000000080000000086c05a4d1300aa0be0de9507826b15f9");
  Sealer large_sealer(keys, Coverage::kAll);
  Buffer large(kRecordMark);
  large.append(as_bytes(std::string(4096, 'a')));
  mark_record(large);
  iovec piece{large.data(), large.size()};
  EXPECT_EQ(to_hex(large_sealer.seal({&piece, 1}, 0).head),
            "00001004000000004df9c1ff7986feff10bc713aa41e04ac");
}

}  // namespace
}  // namespace slice::rpc
