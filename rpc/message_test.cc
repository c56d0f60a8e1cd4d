// XDR, RPC headers, credentials, verifiers, endpoints, records: everything of rpc/ that needs no socket.
#include "rpc/message.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <random>

#include "rpc/key_ring.h"
#include "rpc/record.h"
#include "rpc/siphash.h"

namespace slice::rpc {
namespace {

constexpr EnsembleKey kKey{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

TEST(Xdr, AFailedReaderStaysFailedAndAnswersZeros) {
  std::uint8_t bytes[] = {0, 0, 0, 1, 0, 0};
  XdrReader in(bytes);
  EXPECT_EQ(in.u32(), 1u);
  EXPECT_EQ(in.u32(), 0u);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.left(), 0u);
  EXPECT_EQ(in.u64(), 0u);
  EXPECT_FALSE(in.complete());
}

TEST(Xdr, LengthsAreNotTrusted) {
  for (std::uint32_t length : {5u, 8u, 0x7fffffffu, 0x80000004u, 0xfffffffcu, 0xffffffffu}) {
    XdrWriter out;
    out.u32(length);
    out.u32(0);
    XdrReader in(out.view());
    EXPECT_TRUE(in.opaque(~std::size_t{0}).empty()) << length;
    EXPECT_FALSE(in.ok()) << length;
  }
}

TEST(Xdr, PaddingBelongsToTheOpaque) {
  for (std::size_t n = 0; n < 9; ++n) {
    std::string text(n, 'x');
    XdrWriter out;
    out.text(text);
    out.u32(7);
    EXPECT_EQ(out.size(), 4 + xdr_padded(n) + 4);
    XdrReader in(out.view());
    EXPECT_EQ(in.text(n), text);
    EXPECT_EQ(in.u32(), 7u);
    EXPECT_TRUE(in.complete());
    if (n > 0) {
      XdrReader small(out.view());
      small.opaque(n - 1);
      EXPECT_FALSE(small.ok());
    }
  }
  std::uint8_t cut[] = {0, 0, 0, 1, 'x', 0, 0};  // padding missing
  XdrReader in(cut);
  in.opaque(8);
  EXPECT_FALSE(in.ok());
}

TEST(Xdr, ReservedRoomShrinks) {
  for (std::size_t now = 0; now <= 9; ++now) {
    XdrWriter out;
    out.u32(1);
    ByteSpan room = out.reserve_opaque(9);
    std::fill(room.begin(), room.end(), std::uint8_t{'r'});
    out.shrink_opaque(9, now);
    out.u32(2);
    XdrReader in(out.view());
    EXPECT_EQ(in.u32(), 1u);
    EXPECT_EQ(in.text(9), std::string(now, 'r'));
    EXPECT_EQ(in.u32(), 2u);
    EXPECT_TRUE(in.complete());
  }
}

// Data may be read from a disk straight to where it is sent from.
TEST(Xdr, RoomCanBeginAtAMultiple) {
  for (std::size_t before : {0u, 1u, 31u, 1023u, 5000u}) {
    XdrWriter out;
    for (std::size_t i = 0; i < before; ++i) out.u32(static_cast<std::uint32_t>(i));
    ByteSpan room = out.reserve_opaque(70'001, 4096);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(room.data()) % 4096, 0u);
    std::memset(room.data(), 7, room.size());
    out.shrink_opaque(70'001, 9);
    for (std::uint32_t i = 0; i < 50'000; ++i) out.u32(i);  // it grows, and moves
    Buffer taken = out.take();
    XdrReader in(taken.view());
    for (std::size_t i = 0; i < before; ++i) EXPECT_EQ(in.u32(), i);
    EXPECT_EQ(as_text(in.opaque(100)), std::string(9, 7));
    for (std::uint32_t i = 0; i < 50'000; ++i) ASSERT_EQ(in.u32(), i);
    EXPECT_TRUE(in.ok());
    out.u32(5);  // what was taken from can be used again
    EXPECT_EQ(out.size(), 4u);
  }
}

CallHeader example_call() {
  return {.xid = Xid{0x11223344},
          .program = 100003,
          .version = 3,
          .procedure = 6,
          .credential_flavor = kAuthNone,
          .verifier_flavor = kAuthNone,
          .arguments = as_bytes("argument")};
}

TEST(Message, CallRoundTripAndEveryCut) {
  XdrWriter out;
  encode_call(out, example_call());
  auto call = decode_call(out.view());
  ASSERT_TRUE(call);
  EXPECT_EQ(call->xid, Xid{0x11223344});
  EXPECT_EQ(call->procedure, 6u);
  EXPECT_EQ(as_text(call->arguments), "argument");
  for (std::size_t n = 0; n < 40; ++n) {
    Buffer cut(out.view().first(n));
    EXPECT_FALSE(decode_call(cut.view())) << n;
  }
}

TEST(Message, AuthenticatorsOver400BytesAreRefused) {
  for (auto [size, fits] : {std::pair<std::size_t, bool>{400, true}, {401, false}}) {
    Buffer body(size);
    std::fill(body.span().begin(), body.span().end(), std::uint8_t{0});
    CallHeader call = example_call();
    call.credential = body.view();
    XdrWriter out;
    encode_call(out, call);
    EXPECT_EQ(decode_call(out.view()).has_value(), fits);
    call.credential = {};
    call.verifier = body.view();
    XdrWriter other;
    encode_call(other, call);
    EXPECT_EQ(decode_call(other.view()).has_value(), fits);
  }
}

TEST(Message, RepliesOfEveryKind) {
  XdrWriter ok;
  encode_success(ok, Xid{5});
  EXPECT_EQ(ok.size(), 24u);
  ok.u32(9);
  auto success = decode_reply(ok.view());
  ASSERT_TRUE(success);
  EXPECT_EQ(success->xid, Xid{5});
  EXPECT_EQ(success->results.size(), 4u);

  XdrWriter mismatch;
  encode_error(mismatch, Xid{6}, AcceptStat::kProgramMismatch, 2, 3);
  auto decoded = decode_reply(mismatch.view());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->accept_stat, AcceptStat::kProgramMismatch);
  EXPECT_TRUE(decoded->results.empty());

  XdrWriter auth;
  encode_auth_error(auth, Xid{7}, AuthStat::kTooWeak);
  decoded = decode_reply(auth.view());
  ASSERT_TRUE(decoded);
  EXPECT_FALSE(decoded->accepted);
  EXPECT_EQ(decoded->auth_stat, AuthStat::kTooWeak);

  XdrWriter version;
  encode_rpc_mismatch(version, Xid{8});
  decoded = decode_reply(version.view());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->reject_stat, RejectStat::kRpcMismatch);
  for (const XdrWriter* each : {&mismatch, &auth, &version}) {
    for (std::size_t n = 0; n < each->size(); ++n) EXPECT_FALSE(decode_reply(each->view().first(n)));
  }
}

TEST(AuthSys, RoundTripAndLimits) {
  AuthSys credential{1, "machine", 1000, 100, {1, 2, 3}};
  XdrWriter out;
  encode_auth_sys(out, credential);
  ByteView body = out.view().subspan(8);
  EXPECT_EQ(load_be<std::uint32_t>(out.view().data() + 4), body.size());
  auto decoded = decode_auth_sys(body);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->machine_name, "machine");
  EXPECT_EQ(decoded->groups, credential.groups);
  for (std::size_t n = 0; n < body.size(); ++n) EXPECT_FALSE(decode_auth_sys(body.first(n))) << n;

  XdrWriter many;  // 17 groups
  many.u32(0);
  many.text("m");
  many.u32(0);
  many.u32(0);
  many.u32(17);
  for (std::uint32_t i = 0; i < 17; ++i) many.u32(i);
  EXPECT_FALSE(decode_auth_sys(many.view()));
  EXPECT_TRUE(decode_auth_sys(many.view(), kMostGroups)) << "of members";
}

TEST(AuthSys, AsManyGroupsAsABodyHasRoomFor) {
  AuthSys credential{.uid = 1000, .gid = 100, .groups = std::vector<std::uint32_t>(1000, 7)};
  XdrWriter out;
  encode_auth_sys(out, credential);
  ASSERT_EQ(out.size(), 8 + kMaxAuthBody);
  auto decoded = decode_auth_sys(out.view().subspan(8), kMostGroups);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->groups.size(), kMostGroups);
}

// The examples of docs/formats/auth-slice.md.
TEST(SliceVerifier, GoldenBytes) {
  XdrWriter out;
  encode_slice_verifier(out, {7, Generation{8}, {0x0a4d0102, 999}, Xid{5}});
  EXPECT_EQ(to_hex(out.view()),
            "534c4943"
            "00000024"
            "00000007"
            "0000000000000008"
            "0a4d0102"
            "000003e7"
            "00000005"
            "00000000"
            "0000000000000000");
  XdrWriter relayed;
  encode_slice_verifier(relayed, {7, Generation{8}, {0x0a4d0102, 999}, Xid{5}, 1, true, {0x1234, 9}});
  EXPECT_EQ(to_hex(relayed.view().subspan(32)), "010112340000000000000009");
}

TEST(SliceVerifier, RoundTripAndOtherLengths) {
  SliceVerifier verifier{7, Generation{8}, {0x0a000001, 999}, Xid{5}, 2, true, {0x1234, 1ull << 60}};
  XdrWriter out;
  encode_slice_verifier(out, verifier);
  Buffer body(out.view().subspan(8));
  auto decoded = decode_slice_verifier(body.view());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->sender, 7u);
  EXPECT_EQ(decoded->generation, Generation{8});
  EXPECT_EQ(decoded->client, (Endpoint{0x0a000001, 999}));
  EXPECT_EQ(decoded->client_xid, Xid{5});
  EXPECT_EQ(decoded->relays, 2u);
  EXPECT_TRUE(decoded->datagram);
  EXPECT_EQ(decoded->layout, (LayoutStamp{0x1234, 1ull << 60}));
  for (std::size_t i = 0; i < body.size(); ++i)
    EXPECT_FALSE(decode_slice_verifier(body.view().first(i))) << i;
  Buffer longer = body.clone();
  longer.append(body.view().first(1));
  EXPECT_FALSE(decode_slice_verifier(longer.view()));
  body.data()[16] = 1;  // the port's upper half
  EXPECT_FALSE(decode_slice_verifier(body.view()));
}

// Of a client with IPv6: what the first form has in the address's place says that sixteen bytes are behind
TEST(Endpoint, HostsWithPortsAndWithout) {
  for (const auto& [text, host, port] : {std::tuple("alpha", "alpha", -1),
                                         {"alpha:7", "alpha", 7},
                                         {"10.77.2.2:2049", "10.77.2.2", 2049},
                                         {"fd77::2", "fd77::2", -1},
                                         {"[fd77::2]:7", "fd77::2", 7},
                                         {"[fd77::2]", "fd77::2", -1}}) {
    const auto named = parse_host_and_port(text);
    ASSERT_TRUE(named) << text;
    EXPECT_EQ(named->host, host);
    EXPECT_EQ(named->port ? *named->port : -1, port) << text;
  }
  for (const char* text :
       {"alpha:", "alpha:x", "alpha:65536", "[fd77::2]7", "[fd77::2:7", "[fd77::2]:", "alpha:07"})
    EXPECT_FALSE(parse_host_and_port(text)) << text;
  EXPECT_EQ(parse_endpoint("[fd77::2]:7").value(), (Endpoint{parse_address("fd77::2").value(), 7}));
  EXPECT_EQ(to_string(parse_endpoint("[fd77::2]:7").value()), "[fd77::2]:7");
  EXPECT_FALSE(parse_endpoint("fd77::2:7")) << "which may be an address";
  EXPECT_FALSE(parse_endpoint("[10.77.2]:7"));
}

// all.
TEST(SliceVerifier, OfAClientWithIpv6) {
  const Endpoint client{IpAddress::of_words(0xfd77'0001ull << 32, 0x102), 999};
  XdrWriter out;
  encode_slice_verifier(out, {7, Generation{8}, client, Xid{5}});
  EXPECT_EQ(to_hex(out.view()),
            "534c494300000034"
            "000000070000000000000008ffffffff000003e700000005000000000000000000000000"
            "fd770001000000000000000000000102");
  Buffer body(out.view().subspan(8));
  auto decoded = decode_slice_verifier(body.view());
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->client, client);
  for (std::size_t i = 0; i < body.size(); ++i)
    EXPECT_FALSE(decode_slice_verifier(body.view().first(i))) << i;
  Buffer mapped = body.clone();
  store_be(mapped.data() + 36, std::uint64_t{0});
  store_be(mapped.data() + 44, std::uint64_t{0xffff0a4d0102});
  EXPECT_FALSE(decode_slice_verifier(mapped.view())) << "one client has one form";
}

TEST(SliceVerifier, BitsThatAreReservedAreNotLookedAt) {
  XdrWriter out;
  encode_slice_verifier(out, {.relays = 3});
  Buffer body(out.view().subspan(8));
  body.data()[25] = 0xfe;
  body.data()[26] = body.data()[27] = 0xff;
  auto decoded = decode_slice_verifier(body.view());
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->relays, 3u);
  EXPECT_FALSE(decoded->datagram);
}

TEST(SliceVerifier, HowTheClientsCallCame) {
  using enum TransportSecurity;
  using enum SecurityFlavor;
  const std::vector<std::pair<CallSecurity, int>> all{{{kNone, kSys}, 0},      {{kTls, kSys}, 2},
                                                      {{kMutualTls, kSys}, 6}, {{kNone, kKrb5}, 8},
                                                      {{kTls, kKrb5i}, 18},    {{kMutualTls, kKrb5p}, 30}};
  for (const auto& [how, flags] : all) {
    XdrWriter out;
    encode_slice_verifier(out, {.client = {0x0a000001, 999}, .security = how});
    Buffer body(out.view().subspan(8));
    EXPECT_EQ(body.data()[25], flags);
    EXPECT_EQ(decode_slice_verifier(body.view())->security, how);
  }
}

std::array<std::uint8_t, 16> by_openssl(ByteView bytes, const EnsembleKey& key) {
  EVP_MAC* mac = EVP_MAC_fetch(nullptr, "SIPHASH", nullptr);
  EVP_MAC_CTX* context = EVP_MAC_CTX_new(mac);
  std::size_t size = 16;
  OSSL_PARAM parameters[] = {OSSL_PARAM_construct_size_t("size", &size), OSSL_PARAM_construct_end()};
  std::array<std::uint8_t, 16> out{};
  EXPECT_EQ(EVP_MAC_init(context, key.data(), key.size(), parameters), 1);
  EXPECT_EQ(EVP_MAC_update(context, bytes.data(), bytes.size()), 1);
  EXPECT_EQ(EVP_MAC_final(context, out.data(), &size, out.size()), 1);
  EVP_MAC_CTX_free(context);
  EVP_MAC_free(mac);
  return out;
}

TEST(SipHash, ReferenceVectorAndOpenSslInAnyPieces) {
  // vectors.h of the reference implementation, 128 bits, empty input.
  EXPECT_EQ(to_hex(SipHash128(kKey).finish()), "a3817f04ba25a8e66df67214c7550293");
  std::mt19937 random(1);
  for (std::size_t n = 0; n < 200; ++n) {
    Buffer bytes(n);
    for (auto& byte : bytes.span()) byte = static_cast<std::uint8_t>(random());
    SipHash128 hash(kKey);
    for (std::size_t at = 0; at < n;) {
      std::size_t piece = std::min<std::size_t>(n - at, random() % 13);
      hash.update(bytes.view().subspan(at, piece));
      at += piece;
    }
    EXPECT_EQ(to_hex(hash.finish()), to_hex(by_openssl(bytes.view(), kKey))) << n;
  }
}

TEST(Endpoint, TextBothWays) {
  EXPECT_EQ(to_string({0x0a4d0202, 2049}), "10.77.2.2:2049");
  EXPECT_EQ(*parse_endpoint("10.77.2.2:2049"), (Endpoint{0x0a4d0202, 2049}));
  for (const char* bad : {"", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.4 ", " 1.2.3.4", "1.2.3.-4",
                          "01.2.3.4", "1..3.4", "a.b.c.d"}) {
    EXPECT_FALSE(parse_address(bad)) << bad;
  }
  for (const char* bad : {"1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:x", ":80", "1.2.3.4:80x"}) {
    EXPECT_FALSE(parse_endpoint(bad)) << bad;
  }
}

// Records of random sizes in random fragments, delivered in random pieces, partly by direct().
TEST(Record, AnyCuttingGivesTheSameRecords) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> records;
    std::string stream;
    for (int r = 0; r < 5; ++r) {
      std::string record(random() % (round % 2 == 0 ? 50 : 30000), static_cast<char>('a' + r));
      for (std::size_t at = 0; at <= record.size();) {
        std::size_t n = std::min<std::size_t>(record.size() - at, random() % (record.size() + 1));
        bool last = at + n == record.size();
        std::uint8_t mark[4];
        store_be(mark, static_cast<std::uint32_t>(n) | (last ? kLastFragment : 0));
        stream.append(reinterpret_cast<char*>(mark), 4);
        stream.append(record, at, n);
        at += n;
        if (last) break;
      }
      records.push_back(std::move(record));
    }
    RecordReader reader(1 << 20);
    std::vector<std::string> got;
    Buffer record;
    for (std::size_t at = 0; at < stream.size();) {
      std::size_t n = std::min<std::size_t>(stream.size() - at, 1 + random() % 9000);
      Buffer piece(as_bytes(stream).subspan(at, n));
      at += n;
      ByteSpan direct = reader.direct();
      std::size_t to_direct = std::min(direct.size(), n);
      if (to_direct > 0) {
        std::memcpy(direct.data(), piece.data(), to_direct);
        reader.give_direct(to_direct);
      }
      reader.give(piece.view().subspan(to_direct));
      while (reader.next(record)) got.emplace_back(as_text(record.view()));
      ASSERT_FALSE(reader.broken());
    }
    EXPECT_EQ(got, records);
    EXPECT_FALSE(reader.within_record());
  }
}

// With large records little is taken behind one, so that the next one's bytes are not copied out of the
// scratch.
TEST(Record, TakesLittleBehindLargeRecords) {
  RecordReader reader(1 << 20);
  EXPECT_GT(reader.room_behind(), 1u << 20);
  Buffer record;
  auto give = [&](std::size_t n) {
    XdrWriter out;
    out.u32(static_cast<std::uint32_t>(n) | kLastFragment);
    out.fixed(Buffer(n).view());
    Buffer stream = out.take();
    reader.give(stream.view());
    return reader.next(record);
  };
  ASSERT_TRUE(give(200 << 10));
  EXPECT_LE(reader.room_behind(), 4096u);
  ASSERT_TRUE(give(100));
  EXPECT_GT(reader.room_behind(), 1u << 20);
}

TEST(Record, TheLimitHoldsOverFragments) {
  RecordReader reader(10);
  XdrWriter out;
  out.u32(8);
  out.u64(0);
  out.u32(3 | kLastFragment);
  reader.give(out.view());
  Buffer record;
  EXPECT_FALSE(reader.next(record));
  EXPECT_TRUE(reader.broken());
}

}  // namespace
}  // namespace slice::rpc
