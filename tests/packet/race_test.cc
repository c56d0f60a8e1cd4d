// Two processors whose clients' requests share one entry of `pending`: a reply goes to its own client, with
// its own file's attributes, or nowhere.
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/packet/packet_builder.h"
#include "tests/packet/xdp_harness.h"

namespace slice::packet {
namespace {

// One client with one file, and the frames of its READ and of the answer.
struct Party {
  Flow flow;
  uint64_t fileid;
  Bytes request, answer;

  Party(uint8_t last_octet, uint16_t port, uint32_t xid, uint64_t file) : fileid(file) {
    flow.source_port = port;
    flow.source_mac[5] = last_octet;
    HandleFields handle;
    handle.fileid = file;
    CallHeader header;
    header.xid = xid;
    header.procedure = 6;
    request = udp_frame(flow, rpc_call(header, read_arguments(handle_bytes(handle), 0, 4096)));
    Attributes room{.mode = 0, .nlink = 0, .fileid = file};
    answer =
        udp_frame(reversed(flow),
                  rpc_reply(xid, join({word(0), post_op(room), word(16), word(0), word(16), Bytes(16, 7)})));
  }
};

// Key in `pending` of a request of the client at Flow's address.
uint32_t pending_key(uint16_t port, uint32_t xid) {
  uint32_t address = 0;
  std::memcpy(&address, Flow{}.source.data(), sizeof address);
  return slice_pending_key(address, SLICE_BE16(port), SLICE_BE32(xid));
}

void stay_on(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % std::max(1u, std::thread::hardware_concurrency()), &set);
  sched_setaffinity(0, sizeof set, &set);
}

TEST(Race, RepliesAreNeverMixedUp) {
  XdpHarness xdp;
  uint32_t xid = 1;
  while (pending_key(900, xid) != pending_key(700, 0x10000)) xid++;
  const Party mine(0x51, 700, 0x10000, 0x0003000000000042), other(0x52, 900, xid, 0x0003000000000047);
  // The only server is the virtual address itself, so that a packet comes out as it went in.
  slice_server server{};
  std::copy(other.flow.destination.begin(), other.flow.destination.end(), server.ipv4);
  server.port = 2049;
  server.ifindex = xdp.servers_ifindex;
  std::copy(other.flow.destination_mac.begin(), other.flow.destination_mac.end(), server.next_hop_mac);
  std::copy(other.flow.source_mac.begin(), other.flow.source_mac.end(), server.source_mac);
  xdp.set_server(1, server);
  for (uint32_t site = 0; site <= xdp.config().site_mask[SLICE_CLASS_SMALL_FILE]; site++) {
    xdp.bind(SLICE_CLASS_SMALL_FILE, site, 1);
  }
  for (const Party* party : {&mine, &other}) {
    slice_attr_bucket bucket = xdp.bucket(party->fileid);
    uint32_t way = party == &mine ? 0 : 1;
    Attributes known{.size = 9000, .fileid = party->fileid};
    bucket.fileid[way] = party->fileid;
    bucket.flags[way] = SLICE_ATTR_VALID;
    bucket.learned_ms[way] = xdp.config().now_ms;
    Bytes wire = fattr3(known);
    std::memcpy(bucket.entry[way].base, wire.data(), wire.size());
    xdp.set_bucket(party->fileid, bucket);
  }

  std::atomic<bool> done = false;
  std::thread writer([&] {
    stay_on(1);
    // One packet a call, so that an entry that two processors wrote at once stays for a while.
    for (int i = 0; i < 500'000; i++) xdp.pass(other.request);
    done = true;
  });
  stay_on(0);
  unsigned sent = 0, lost = 0;
  while (!done) {
    EXPECT_EQ(xdp.pass(mine.request).verdict, static_cast<uint32_t>(XDP_REDIRECT));
    Pass out = xdp.pass(mine.answer);
    if (out.verdict != XDP_REDIRECT) {
      lost++;
      continue;
    }
    sent++;
    EXPECT_EQ(read_flow(out.frame).destination_mac, mine.flow.source_mac);
    EXPECT_EQ(read_fattr3(std::span(out.frame).subspan(kPayloadAt + 32)).fileid, mine.fileid);
  }
  writer.join();
  std::printf("%u replies sent, %u lost to the other client's request\n", sent, lost);
  EXPECT_GT(sent, 0u);
  if (std::thread::hardware_concurrency() > 1) EXPECT_GT(lost, 0u) << "there was no race";
}

}  // namespace
}  // namespace slice::packet
