// That the programs which `./slice bench table3` measures do what the real one does: whole, they leave a
// frame as it does; cut, they leave it alone.
#include "tests/packet/stages.h"

#include <gtest/gtest.h>
#include <linux/bpf.h>

#include "tests/packet/packet_builder.h"

namespace slice::packet {
namespace {

class StagesTest : public testing::Test {
 protected:
  static Bytes call(uint32_t procedure, const Bytes& arguments) {
    CallHeader header;
    header.procedure = procedure;
    return udp_frame(Flow{}, rpc_call(header, arguments));
  }
  void begin(const Bytes& before) {
    if (before.empty()) return;  // requests come out the same whatever was remembered
    xdp.clear_state();
    xdp.pass(before);
  }
  // `before` passes the real program first, as the request of a reply.
  void expect_same(const std::string& path, const Bytes& frame, const Bytes& before = {}) {
    auto programs = stages.of(path);
    ASSERT_GE(programs.size(), 5u);
    for (const auto& [stage, program] : programs) {
      SCOPED_TRACE(path + "_" + stage);
      begin(before);
      Pass real = xdp.pass(frame);
      begin(before);
      Pass cut = xdp.pass(program, frame);
      bool whole = stage == "whole";
      EXPECT_EQ(cut.verdict, whole ? real.verdict : XDP_TX);
      if (whole) EXPECT_EQ(cut.frame, real.frame);
      if (path != "reply" && !whole) EXPECT_EQ(cut.frame, frame);
    }
  }

  XdpHarness xdp;
  Stages stages{xdp};
};

TEST_F(StagesTest, Requests) {
  Bytes handle = handle_bytes({});
  for (uint32_t procedure : {1u, 2u, 3u, 4u, 8u, 12u, 14u, 16u, 21u}) {
    SCOPED_TRACE(procedure);
    expect_same("request", call(procedure, some_arguments(procedure, handle, "twelve-bytes")));
  }
  expect_same("request", call(7, write_arguments(handle, 0, 1024, 1024)));
}

TEST_F(StagesTest, Read) {
  expect_same("read", call(6, some_arguments(6, handle_bytes({}))));
}

TEST_F(StagesTest, Replies) {
  Bytes request = call(1, some_arguments(1, handle_bytes({})));
  Flow sent = read_flow(xdp.pass(request).frame);
  Bytes results = join({word(0), fattr3({.size = 1 << 20})});
  Bytes reply = udp_frame(reversed(sent), rpc_reply(CallHeader{}.xid, results));
  expect_same("reply", reply, request);
}

}  // namespace
}  // namespace slice::packet
