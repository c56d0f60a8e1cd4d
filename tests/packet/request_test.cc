// Requests through the XDP program, as data: description, frame, what must come
// out. Checksums are verified by full recomputation, sites by their definition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>

#include <algorithm>
#include <bit>

#include "bpf/shared/file_handle.h"
#include "tests/packet/packet_builder.h"
#include "tests/packet/xdp_harness.h"

namespace slice::packet {
namespace {

uint64_t splitmix_finaliser(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// docs/formats/file-handle.md, "Routes", with 64 sites.
uint32_t documented_small_file_site(uint64_t fileid) {
  return (static_cast<uint32_t>(fileid * 0x61c88647) >> 16) & 63;
}

class RequestTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { xdp_ = new XdpHarness; }
  static void TearDownTestSuite() { delete std::exchange(xdp_, nullptr); }
  void SetUp() override { original_ = xdp_->config(); }
  void TearDown() override {
    xdp_->config() = original_;
    xdp_->apply();
    xdp_->bind_default_sites();
    xdp_->ingress_ifindex = 0;
    xdp_->set_bucket(HandleFields{}.fileid, {});
  }

  static Bytes call(uint32_t procedure, const Bytes& arguments, Checksum checksum = Checksum::kFull) {
    static uint32_t xid = 0x5000;
    CallHeader header;
    header.xid = ++xid;
    header.procedure = procedure;
    return udp_frame(Flow{}, rpc_call(header, arguments), checksum);
  }

  // Checks that the frame went to that site, everything but the changed fields untouched.
  static void expect_routed(const Outcome& run, const Bytes& in, uint32_t site_class, uint32_t site,
                            const std::vector<size_t>& changed_payload_words = {}) {
    slice_server server = xdp_->server(XdpHarness::default_server(site_class, site));
    EXPECT_EQ(run.verdict, XDP_REDIRECT);
    ASSERT_EQ(run.frame.size(), in.size());
    Flow out = read_flow(run.frame);
    EXPECT_THAT(out.destination, testing::ElementsAreArray(server.ipv4));
    EXPECT_EQ(out.destination_port, server.port);
    EXPECT_THAT(out.destination_mac, testing::ElementsAreArray(server.next_hop_mac));
    EXPECT_THAT(out.source_mac, testing::ElementsAreArray(server.source_mac));
    EXPECT_EQ(out.source, Flow{}.source);
    EXPECT_EQ(out.source_port, Flow{}.source_port);
    EXPECT_TRUE(ip_checksum_right(run.frame));
    EXPECT_TRUE(udp_checksum_right(run.frame));
    for (size_t i = kPayloadAt; i < in.size(); i++) {
      size_t w = (i - kPayloadAt) / 4;
      if (std::find(changed_payload_words.begin(), changed_payload_words.end(), w) ==
          changed_payload_words.end()) {
        ASSERT_EQ(run.frame[i], in[i]) << "payload byte " << i - kPayloadAt;
      }
    }
  }

  static void know(uint64_t size) { xdp_->know(HandleFields{}.fileid, size); }

  static uint64_t hint_of(const Bytes& frame) {
    uint64_t hint =
        0;  // call header with 32 bytes of credential: 72 bytes; then length and 32 bytes of handle
    for (size_t i = 0; i < 8; i++) hint = hint << 8 | frame[kPayloadAt + 72 + 4 + 32 + i];
    return hint;
  }
  static inline const std::vector<size_t> kHintWords{27, 28};  // (72 + 4 + 32) / 4

  static inline XdpHarness* xdp_ = nullptr;
  slice_config original_{};
};

struct Expected {
  const char* description;
  uint32_t procedure;
  uint32_t site_class;
  uint32_t site;
};

TEST_F(RequestTest, EveryProcedureGoesToItsSite) {
  const uint64_t file = HandleFields{}.fileid;
  const uint32_t small = documented_small_file_site(file);
  const uint32_t coordinator = static_cast<uint32_t>(splitmix_finaliser(file ^ 0x636f6f7264)) & 63;
  const Expected kTable[] = {
      {"GETATTR: the handle's directory site", 1, 0, 3},
      {"SETATTR", 2, 0, 3},
      {"LOOKUP", 3, 0, 3},
      {"ACCESS", 4, 0, 3},
      {"READLINK", 5, 0, 3},
      {"READ below the threshold", 6, 1, small},
      {"WRITE below the threshold", 7, 1, small},
      {"CREATE", 8, 0, 3},
      {"MKDIR, p = 0", 9, 0, 3},
      {"SYMLINK", 10, 0, 3},
      {"MKNOD", 11, 0, 3},
      {"REMOVE", 12, 0, 3},
      {"RMDIR", 13, 0, 3},
      {"RENAME: the old directory's site", 14, 0, 3},
      {"LINK: the directory's site", 15, 0, 5},
      {"READDIR", 16, 0, 3},
      {"FSSTAT", 18, 0, 3},
      {"FSINFO", 19, 0, 3},
      {"PATHCONF", 20, 0, 3},
      {"COMMIT of a file of unknown size", 21, 3, coordinator},
  };
  for (const Expected& e : kTable) {
    SCOPED_TRACE(e.description);
    for (Checksum checksum : {Checksum::kFull, Checksum::kNone, Checksum::kUnfilled}) {
      Bytes in = call(e.procedure, some_arguments(e.procedure, handle_bytes({})), checksum);
      Outcome run = xdp_->run(in);
      expect_routed(run, in, e.site_class, e.site);
      EXPECT_EQ(run.outcomes[e.procedure], 1u);
      EXPECT_EQ(udp_checksum_field(run.frame) == 0, checksum != Checksum::kFull);
      EXPECT_EQ(run.outcomes.count(SLICE_OUTCOME_CHECKSUM_CLEARED),
                checksum == Checksum::kUnfilled ? 1u : 0u);
      auto pending = xdp_->pending(in);
      ASSERT_TRUE(pending.has_value());
      EXPECT_EQ(pending->procedure, e.procedure);
      EXPECT_EQ(pending->fileid, file);
      EXPECT_EQ(pending->ifindex, xdp_->clients_ifindex);
    }
  }
}

TEST_F(RequestTest, BytesGoByThresholdAndStripe) {
  struct Range {
    uint64_t offset;
    uint32_t count;
    uint32_t clamped;
  };
  const uint64_t file = HandleFields{}.fileid;
  const Range kRanges[] = {{0, 65536, 65536},      {0, 65537, 65536},     {65535, 2, 1},
                           {65536, 65536, 65536},  {65536, 65537, 65536}, {65537, 65536, 65535},
                           {131071, 4096, 1},      {1ull << 40, 1, 1},    {(1ull << 63) - 1, 100, 1},
                           {~0ull, 0xffffffff, 1}, {1000, 0, 0},          {~0ull - 65535, 32768, 32768}};
  for (const Range& r : kRanges) {
    SCOPED_TRACE(testing::Message() << "offset " << r.offset << " count " << r.count);
    uint64_t stripe = r.offset >> 16;
    uint32_t site_class = r.offset < 65536 ? 1 : 2;
    uint32_t site =
        site_class == 1
            ? documented_small_file_site(file)
            : static_cast<uint32_t>(splitmix_finaliser(file + splitmix_finaliser(stripe + 1))) & 1023;
    Bytes in = call(6, read_arguments(handle_bytes({}), r.offset, r.count));
    Outcome run = xdp_->run(in);
    bool clamps = r.clamped != r.count;
    expect_routed(run, in, site_class, site, {35});  // the count's word: (72 + 60 + 8) / 4
    EXPECT_EQ(run.outcomes[clamps ? SLICE_OUTCOME_READ_CLAMPED : SLICE_OUTCOME_ROUTED_READ], 1u);
    uint32_t count = 0;
    for (size_t i = 0; i < 4; i++) count = count << 8 | run.frame[kPayloadAt + 140 + i];
    EXPECT_EQ(count, r.clamped);
    // a WRITE that crosses goes whole to the owner of its first byte, which answers short
    Bytes write = call(7, write_arguments(handle_bytes({}), r.offset, r.count, 8));
    expect_routed(xdp_->run(write), write, site_class, site);
  }
}

// Copies take turns, stripe by stripe; whoever asks again asks the next one.
TEST_F(RequestTest, ReadsOfMirroredFilesGoToTheirCopies) {
  const uint32_t one = XdpHarness::default_server(2, 1), two = XdpHarness::default_server(2, 5),
                 three = XdpHarness::default_server(2, 9);
  const uint64_t file = HandleFields{}.fileid;
  auto site_of = [&](uint64_t stripe) {
    return static_cast<uint32_t>(splitmix_finaliser(file + splitmix_finaliser(stripe + 1))) & 1023;
  };
  auto set_all = [&](uint32_t a, uint32_t b, uint32_t c) {
    for (uint64_t stripe = 0; stripe < 4; stripe++) xdp_->set_copies(site_of(stripe), a, b, c);
  };
  auto read = [](uint32_t flags, uint64_t stripe, uint32_t xid, uint32_t count = 100) {
    CallHeader header;
    header.procedure = 6;
    header.xid = xid;
    return udp_frame(Flow{},
                     rpc_call(header, read_arguments(handle_bytes({.flags = static_cast<uint8_t>(flags)}),
                                                     stripe << 16, count)));
  };
  auto asked = [&](const Bytes& frame) { return read_flow(xdp_->run(frame).frame).destination; };
  auto at = [&](uint32_t server) { return std::to_array(xdp_->server(server).ipv4); };
  constexpr uint32_t kTwo = SLICE_HANDLE_MIRRORED, kThree = SLICE_HANDLE_MIRRORED | SLICE_HANDLE_THREE_COPIES;
  set_all(one, two, three);
  uint32_t xid = 1000;
  for (uint64_t stripe = 0; stripe < 4; stripe++) {
    EXPECT_EQ(asked(read(kTwo, stripe, ++xid)), at(stripe % 2 == 0 ? one : two)) << stripe;
    EXPECT_EQ(asked(read(kThree, stripe, ++xid)), at(std::array{one, two, three}[stripe % 3])) << stripe;
  }
  // Below the threshold, too, and cut at the stripe's end.
  Bytes in = read(kTwo, 1, ++xid, 65537);
  Outcome run = xdp_->run(in);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_READ_CLAMPED], 1u);
  EXPECT_EQ(xdp_->pending(in)->server & 0x7fff, two);
  // Again, and again.
  for (uint32_t server : {three, one, two, three}) EXPECT_EQ(asked(read(kThree, 1, xid)), at(server));
  for (uint32_t server : {two, one, two})
    EXPECT_EQ(asked(read(kTwo, 1, xid)), at(server)) << "whoever asked the third";
  // Of a copy that cannot be reached it is the next one's turn; of all of them, user space's.
  set_all(one, 0, three);
  EXPECT_EQ(asked(read(kThree, 1, ++xid)), at(three));
  EXPECT_EQ(asked(read(kTwo, 1, ++xid)), at(one));
  EXPECT_EQ(asked(read(kTwo, 1, xid)), at(one)) << "there is no other";
  set_all(0, 0, three);
  EXPECT_EQ(xdp_->run(read(kTwo, 1, ++xid)).outcomes[SLICE_OUTCOME_MIRRORED], 1u)
      << "a third has nothing of two copies";
  EXPECT_EQ(asked(read(kThree, 1, ++xid)), at(three));
  // Writes, and what a block map says, are user space's.
  set_all(one, two, three);
  EXPECT_EQ(xdp_->run(call(7, write_arguments(handle_bytes({.flags = SLICE_HANDLE_MIRRORED}), 0, 8, 8)))
                .outcomes[SLICE_OUTCOME_MIRRORED],
            1u);
  EXPECT_EQ(xdp_->run(read(kTwo | SLICE_HANDLE_BLOCK_MAPPED, 1, ++xid)).outcomes[SLICE_OUTCOME_BLOCK_MAPPED],
            1u);
  set_all(0, 0, 0);
}

TEST_F(RequestTest, HintIsStampedWhereTheReplyCanBePatched) {
  for (uint32_t procedure : {6u, 7u, 21u}) {
    know(5000);
    Bytes in = call(procedure, some_arguments(procedure, handle_bytes({})));
    Outcome run = xdp_->run(in);
    EXPECT_EQ(hint_of(run.frame), (3ULL << 62) | 5000);
    uint32_t site = documented_small_file_site(HandleFields{}.fileid);
    expect_routed(run, in, 1, site, kHintWords);  // COMMIT too: the file is known to be small
    know(70000);
    run = xdp_->run(in);
    EXPECT_EQ(hint_of(run.frame), (3ULL << 62) | 70000);
    if (procedure == 21) {
      expect_routed(run, in, 3,
                    static_cast<uint32_t>(splitmix_finaliser(HandleFields{}.fileid ^ 0x636f6f7264)) & 63,
                    kHintWords);
    }
  }
}

TEST_F(RequestTest, ForgedHintsAreCleared) {
  for (uint32_t p = 1; p <= 21; p++) {
    if (p == 17) continue;
    Bytes in = call(p, some_arguments(p, handle_bytes({.hint = 0xffff000011112222})));
    Outcome run = xdp_->run(in);
    EXPECT_EQ(run.verdict, XDP_REDIRECT);
    EXPECT_EQ(hint_of(run.frame), 0u) << "procedure " << p;
    EXPECT_TRUE(udp_checksum_right(run.frame));
  }
}

TEST_F(RequestTest, StaleAttributesGiveNoHint) {
  know(5000);
  xdp_->config().now_ms += xdp_->config().attribute_life_ms + 1;
  xdp_->apply();
  Outcome run = xdp_->run(call(6, some_arguments(6, handle_bytes({}))));
  EXPECT_EQ(hint_of(run.frame), 0u);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_ATTR_MISS], 1u);
}

TEST_F(RequestTest, MkdirSwitchingRedirectsByTheHash) {
  xdp_->config().mkdir_limit = 1ull << 32;  // p = 1
  xdp_->apply();
  std::map<Ipv4, int> servers;
  for (int i = 0; i < 64; i++) {
    Bytes in = call(9, name_arguments(handle_bytes({}), "directory" + std::to_string(i), 24));
    Outcome once = xdp_->run(in);
    EXPECT_EQ(read_flow(once.frame).destination, read_flow(xdp_->run(in).frame).destination);
    servers[read_flow(once.frame).destination]++;
    // other operations on the same name stay with the directory
    Bytes lookup = call(3, name_arguments(handle_bytes({}), "directory" + std::to_string(i)));
    expect_routed(xdp_->run(lookup), lookup, 0, 3);
  }
  EXPECT_GT(servers.size(), 8u);
}

TEST_F(RequestTest, NameHashingWalksReaddirByCookie) {
  xdp_->config().policy = SLICE_POLICY_NAME_HASHING;
  xdp_->apply();
  for (uint64_t site : {0u, 1u, 63u}) {
    Bytes in = call(16, readdir_arguments(handle_bytes({}), site << 48 | 77, false));
    expect_routed(xdp_->run(in), in, 0, static_cast<uint32_t>(site));
  }
}

TEST_F(RequestTest, EveryOtherOutcome) {
  Bytes good = call(1, some_arguments(1, handle_bytes({})));
  Bytes handle = handle_bytes({});
  auto header = [](CallHeader h, const Bytes& arguments) {
    return udp_frame(Flow{}, rpc_call(h, arguments));
  };
  Flow elsewhere;
  elsewhere.destination = {10, 77, 9, 9};
  Flow portmap;
  portmap.destination_port = 111;
  xdp_->bind(0, 9, 0);
  xdp_->bind(0, 10, 900);
  Bytes longer = good;
  longer.insert(longer.end(), 4, 0);
  const Refused kTable[] = {
      {"NULL is answered by the proxy", call(0, {}), SLICE_OUTCOME_ROUTED_NULL},
      {"to another address, no RPC reply", udp_frame(elsewhere, Bytes(64, 0)), SLICE_OUTCOME_NOT_OURS},
      {"ARP", edited(good, 12, {8, 6}), SLICE_OUTCOME_NOT_IPV4},
      {"a VLAN tag", edited(good, 12, {0x81, 0}), SLICE_OUTCOME_NOT_IPV4},
      {"a runt", Bytes(20, 0), SLICE_OUTCOME_NOT_IPV4},
      {"TCP", edited(good, 23, {6}, true), SLICE_OUTCOME_NOT_UDP},
      {"PORTMAP", udp_frame(portmap, rpc_call({.program = 100000, .version = 2}, {})),
       SLICE_OUTCOME_OTHER_PORT},
      {"IP options", edited(good, 14, {0x46}, true), SLICE_OUTCOME_IP_OPTIONS},
      {"MOUNT on the NFS port", header({.program = 100005, .procedure = 1}, {}), SLICE_OUTCOME_OTHER_PROGRAM},
      {"NFSACL", header({.program = 100227, .procedure = 1}, {}), SLICE_OUTCOME_OTHER_PROGRAM},
      {"NFSv4", header({.version = 4, .procedure = 1}, {}), SLICE_OUTCOME_OTHER_VERSION},
      {"RPC version 3", header({.rpc_version = 3, .procedure = 1}, {}), SLICE_OUTCOME_RPC_VERSION},
      {"procedure 22", header({.procedure = 22}, {}), SLICE_OUTCOME_BAD_PROCEDURE},
      {"procedure 0xffffffff", header({.procedure = ~0u}, {}), SLICE_OUTCOME_BAD_PROCEDURE},
      {"handle of 32 bytes", call(1, XdrWriter().opaque(Bytes(32, 1)).bytes()), SLICE_OUTCOME_BAD_HANDLE},
      {"handle of length 2^31+4", call(1, join({word(0x80000004), Bytes(56, 1)})), SLICE_OUTCOME_BAD_HANDLE},
      {"handle of another version", call(1, some_arguments(1, handle_bytes({.version = 2}))),
       SLICE_OUTCOME_BAD_HANDLE},
      {"another volume's handle", call(1, some_arguments(1, handle_bytes({.volume = 8}))),
       SLICE_OUTCOME_BAD_HANDLE},
      {"site beyond the table", call(1, some_arguments(1, handle_bytes({.site = 64}))),
       SLICE_OUTCOME_BAD_HANDLE},
      {"fileID 0", call(1, some_arguments(1, handle_bytes({.fileid = 0}))), SLICE_OUTCOME_BAD_HANDLE},
      {"stripe shift 63", call(6, some_arguments(6, handle_bytes({.stripe_shift = 63}))),
       SLICE_OUTCOME_BAD_HANDLE},
      {"RENAME to another volume", call(14, rename_arguments(handle, "a", handle_bytes({.volume = 9}), "b")),
       SLICE_OUTCOME_BAD_HANDLE},
      {"name of 256 bytes", call(3, name_arguments(handle, std::string(256, 'x'))),
       SLICE_OUTCOME_NAME_TOO_LONG},
      {"empty name", call(3, name_arguments(handle, "")), SLICE_OUTCOME_NAME_EMPTY},
      {"READ of a file with a block map", call(6, read_arguments(handle_bytes({.flags = 2}), 1 << 20, 10)),
       SLICE_OUTCOME_BLOCK_MAPPED},
      {"READ of a mirrored file", call(6, read_arguments(handle_bytes({.flags = 1}), 1 << 20, 10)),
       SLICE_OUTCOME_MIRRORED},
      {"READ of a mirrored file's first bytes", call(6, read_arguments(handle_bytes({.flags = 5}), 0, 10)),
       SLICE_OUTCOME_MIRRORED},
      {"unbound site", call(1, some_arguments(1, handle_bytes({.site = 9}))), SLICE_OUTCOME_SITE_UNBOUND},
      {"site bound to no server's number", call(1, some_arguments(1, handle_bytes({.site = 10}))),
       SLICE_OUTCOME_SITE_UNBOUND},
      {"READDIRPLUS", call(17, some_arguments(17, handle)), SLICE_OUTCOME_TO_USER_SPACE},
      {"bytes after the datagram", longer, SLICE_OUTCOME_TRAILER},
      {"IP says more than the frame has", edited(good, 16, {1, 0}, true), SLICE_OUTCOME_MALFORMED},
      {"UDP length 4", edited(good, 38, {0, 4}), SLICE_OUTCOME_MALFORMED},
      {"credential of 401 bytes",
       header({.procedure = 1, .credential = Bytes(401, 0)}, some_arguments(1, handle)),
       SLICE_OUTCOME_BAD_AUTH_LENGTH},
      {"verifier of 404 bytes",
       header({.procedure = 1, .verifier = Bytes(404, 0)}, some_arguments(1, handle)),
       SLICE_OUTCOME_BAD_AUTH_LENGTH},
      {"a reply", header({.message_type = 1}, {}), SLICE_OUTCOME_NOT_A_CALL},
      {"arguments end early", call(6, XdrWriter().opaque(handle).u64(0).bytes()), SLICE_OUTCOME_TRUNCATED},
  };
  for (const Refused& r : kTable) {
    SCOPED_TRACE(r.description);
    Outcome run = xdp_->run(r.frame);
    EXPECT_EQ(run.outcomes[r.outcome], 1u) << testing::PrintToString(run.outcomes);
    bool drop = r.outcome >= 64;
    EXPECT_EQ(run.verdict, drop ? XDP_DROP : XDP_PASS);
    EXPECT_EQ(run.frame, r.frame) << "a packet that is not routed is not touched";
  }
}

TEST_F(RequestTest, WithoutTablesEverythingPasses) {
  xdp_->config().abi = 0;
  xdp_->apply();
  Outcome run = xdp_->run(call(1, some_arguments(1, handle_bytes({}))));
  EXPECT_EQ(run.verdict, XDP_PASS);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_NO_CONFIG], 1u);
}

// What leaves where it came from leaves by XDP_TX, and a sum that only looks unfilled is a sum.
TEST_F(RequestTest, OnNetworkCards) {
  xdp_->config().flags |= SLICE_CONFIG_CARDS;
  xdp_->apply();
  xdp_->ingress_ifindex = xdp_->servers_ifindex;
  xdp_->route("10.77.1.2/32 dev servers");
  Outcome run = xdp_->run(call(1, some_arguments(1, handle_bytes({}))));
  EXPECT_EQ(run.verdict, XDP_TX);
  EXPECT_TRUE(udp_checksum_right(run.frame));
  CallHeader header;
  Outcome unfilled = xdp_->run(
      udp_frame(Flow{}, rpc_call(header, some_arguments(1, handle_bytes({}))), Checksum::kUnfilled));
  EXPECT_EQ(unfilled.outcomes[SLICE_OUTCOME_CHECKSUM_CLEARED], 0u);
  xdp_->ingress_ifindex = 0;
  xdp_->route("10.77.1.2/32 dev clients");
  EXPECT_EQ(xdp_->run(call(1, some_arguments(1, handle_bytes({})))).verdict, XDP_REDIRECT);
}

TEST_F(RequestTest, UnknownNextHopLeavesForwardingToTheStack) {
  slice_server server = xdp_->server(XdpHarness::default_server(0, 3));
  server.ifindex = 0;
  xdp_->set_server(XdpHarness::default_server(0, 3), server);
  Outcome run = xdp_->run(call(1, some_arguments(1, handle_bytes({}))));
  EXPECT_EQ(run.verdict, XDP_PASS);
  EXPECT_EQ(run.outcomes[SLICE_OUTCOME_NO_NEXT_HOP], 1u);
  EXPECT_THAT(read_flow(run.frame).destination, testing::ElementsAreArray(server.ipv4));
  EXPECT_TRUE(udp_checksum_right(run.frame));
}

// Every procedure cut at every length, IP and UDP lengths true to the cut: the
// program says so, never reads beyond, and never sends a piece of a call on.
TEST_F(RequestTest, CutAtEveryLength) {
  for (uint32_t p = 0; p <= 21; p++) {
    CallHeader header;
    header.procedure = p;
    Bytes payload = rpc_call(header, some_arguments(p, handle_bytes({}), "eleven-char"));
    size_t needed = payload.size();
    if (p == 2) needed = 132;  // what a route depends on ends with the handle,
    if (p == 4) needed = 132;
    if (p == 7) needed = 152;             // the data's length,
    if (p >= 8 && p <= 11) needed = 148;  // or the name
    for (size_t length = 0; length <= payload.size(); length++) {
      Bytes cut(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(length));
      Bytes frame = udp_frame(Flow{}, cut);
      Outcome run = xdp_->run(frame);
      if (length < needed) {
        EXPECT_EQ(run.verdict, XDP_DROP) << "procedure " << p << " length " << length;
        EXPECT_EQ(run.outcomes[SLICE_OUTCOME_TRUNCATED], 1u);
      } else {
        EXPECT_NE(run.verdict, XDP_DROP) << "procedure " << p << " length " << length;
      }
    }
    // the frame itself cut, below any header
    Bytes frame = udp_frame(Flow{}, payload);
    for (size_t length = 14; length < frame.size(); length++) {
      Bytes cut(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(length));
      Outcome run = xdp_->run(cut);
      EXPECT_NE(run.verdict, XDP_ABORTED);
      if (length < kPayloadAt + needed) {
        EXPECT_NE(run.verdict, XDP_REDIRECT) << "procedure " << p << " length " << length;
      }
    }
  }
}

}  // namespace
}  // namespace slice::packet
