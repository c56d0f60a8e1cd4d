// The same packets through the XDP program and through the routing core as user
// space compiles it: outcome, server and clamped count agree, for generated and
// for mutated packets, under both policies and both hashes. Seeded.
#include <gtest/gtest.h>
#include <linux/bpf.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "bpf/shared/routing.h"
#include "tests/packet/packet_builder.h"
#include "tests/packet/xdp_harness.h"

namespace slice::packet {
namespace {

struct Decision {
  uint32_t outcome = 0;
  uint32_t server = 0;
  uint32_t count = 0;
};

// What user space decides about the RPC message.
Decision decide(const slice_config& config, std::span<const uint8_t> message) {
  slice_request request{};
  slice_route route{};
  const uint8_t* end = message.data() + message.size();
  uint32_t outcome = slice_parse_call(&config, message.data(), end, &request);
  if (outcome) return {.outcome = outcome};
  if (request.procedure == SLICE_NFS_NULL) return {.outcome = SLICE_OUTCOME_ROUTED_NULL};
  if (request.procedure == SLICE_NFS_READDIRPLUS) return {.outcome = SLICE_OUTCOME_TO_USER_SPACE};
  slice_route_call(&config, &request, end, 0, 0, &route);
  if (slice_outcome_action(route.outcome) != SLICE_ACTION_FORWARD) return {.outcome = route.outcome};
  return {.outcome = route.outcome,
          .server = XdpHarness::default_server(route.site_class, route.site),
          .count = route.count};
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Bytes message() {
    HandleFields fields;
    fields.fileid = random_();
    fields.site = static_cast<uint32_t>(random_() % 64);
    fields.stripe_shift = static_cast<uint8_t>(12 + random_() % 12);
    fields.hint = random_() % 2 ? random_() : 0;
    fields.flags = random_() % 16 == 0 ? 2 : 0;
    Bytes handle = handle_bytes(fields);
    CallHeader header;
    header.xid = static_cast<uint32_t>(random_());
    // READ has a parser of its common form, which must agree with the general one
    header.procedure = random_() % 3 == 0 ? 6 : static_cast<uint32_t>(random_() % 22);
    header.credential = Bytes(random_() % 4 == 0 ? random_() % 401 : 4 * (random_() % 20), 0xaa);
    header.verifier = Bytes(random_() % 8 == 0 ? random_() % 100 : 0, 0xbb);
    std::string name(1 + random_() % (random_() % 4 ? 24 : 255), 'a');
    for (char& c : name) c = static_cast<char>(random_());
    Bytes arguments = some_arguments(header.procedure, handle, name);
    uint64_t offset = random_() >> (random_() % 64);
    auto count = static_cast<uint32_t>(random_() >> (32 + random_() % 32));
    if (header.procedure == 6) arguments = read_arguments(handle, offset, count);
    if (header.procedure == 7) arguments = write_arguments(handle, offset, count, random_() % 64 * 4);
    if (header.procedure == 16) arguments = readdir_arguments(handle, random_(), false);
    return rpc_call(header, arguments);
  }

  // Flips, overwrites or cuts.
  void mutate(Bytes& message) {
    for (uint64_t n = 1 + random_() % 3; n > 0 && !message.empty(); n--) {
      size_t where = random_() % message.size();
      switch (random_() % 4) {
        case 0:
          message[where] ^= static_cast<uint8_t>(1u << random_() % 8);
          break;
        case 1:
          message[where] = static_cast<uint8_t>(random_());
          break;
        case 2:
          message.resize(where);
          break;
        default:
          where = where / 4 * 4;
          for (size_t i = where; i < std::min(where + 4, message.size()); i++) message[i] = 0xff;
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

// For each policy and hash; fewer where the machine is emulated.
int packets() {
  const char* wanted =
      std::getenv("SLICE_DIFFERENTIAL_PACKETS");  // NOLINT(concurrency-mt-unsafe): one thread
  return wanted ? std::atoi(wanted) : 6000;
}

struct OverIpv4 {
  using Flow = packet::Flow;
  static constexpr size_t kPayloadAt = packet::kPayloadAt;
  static void bind(XdpHarness& xdp) { xdp.bind_default_sites(); }
  static bool went_to(const XdpHarness& xdp, const Bytes& frame, uint32_t server) {
    return std::ranges::equal(read_flow(frame).destination, xdp.server(server).ipv4);
  }
  static bool checksums_right(const Bytes& frame) {
    return ip_checksum_right(frame) && udp_checksum_right(frame);
  }
};

struct OverIpv6 {
  using Flow = packet::Flow6;
  static constexpr size_t kPayloadAt = packet::kPayloadAt6;
  static void bind(XdpHarness& xdp) { xdp.bind_default_sites6(); }
  static bool went_to(const XdpHarness& xdp, const Bytes& frame, uint32_t server) {
    return std::ranges::equal(read_flow6(frame).destination, xdp.server6(server).ipv6);
  }
  static bool checksums_right(const Bytes& frame) { return udp6_checksum_right(frame); }
};

template <class Family>
class Differential : public testing::Test {};
using Families = testing::Types<OverIpv4, OverIpv6>;
TYPED_TEST_SUITE(Differential, Families);

TYPED_TEST(Differential, XdpAndUserSpaceAgree) {
  XdpHarness xdp;
  TypeParam::bind(xdp);
  Generator generator(20001023);
  int forwarded = 0;
  for (uint32_t policy : {0u, 1u}) {
    for (uint32_t hash : {0u, 1u}) {
      xdp.config().policy = policy;
      xdp.config().name_hash = hash;
      xdp.config().mkdir_limit = 1ull << 31;
      xdp.apply();
      for (int i = 0; i < packets(); i++) {
        Bytes message = generator.message();
        if (i % 2) generator.mutate(message);
        Decision decision = decide(xdp.config(), message);
        Bytes frame = udp_frame(typename TypeParam::Flow{}, message);
        Outcome run = xdp.run(frame);
        run.outcomes.erase(SLICE_OUTCOME_ATTR_MISS);
        run.outcomes.erase(SLICE_OUTCOME_OVER_IPV6);
        ASSERT_EQ(run.outcomes.size(), 1u) << testing::PrintToString(run.outcomes);
        ASSERT_EQ(run.outcomes.begin()->first, decision.outcome)
            << "packet " << i << " policy " << policy << ": " << slice_outcome_name(decision.outcome);
        if (slice_outcome_action(decision.outcome) != SLICE_ACTION_FORWARD) continue;
        forwarded++;
        ASSERT_EQ(run.verdict, XDP_REDIRECT);
        ASSERT_TRUE(TypeParam::went_to(xdp, run.frame, decision.server)) << "packet " << i;
        ASSERT_TRUE(TypeParam::checksums_right(run.frame));
        if (decision.outcome == SLICE_OUTCOME_READ_CLAMPED) {
          slice_request request{};
          auto out = std::span(run.frame).subspan(TypeParam::kPayloadAt);
          ASSERT_EQ(slice_parse_call(&xdp.config(), out.data(), out.data() + out.size(), &request), 0u);
          ASSERT_EQ(request.count, decision.count);
        }
      }
    }
  }
  EXPECT_GT(forwarded, packets() * 4 / 3);
}

}  // namespace
}  // namespace slice::packet
