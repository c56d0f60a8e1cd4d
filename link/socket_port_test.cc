// Frames over real sockets: UDP of this host's loopback. Ethernet needs two hosts: suite `volumes`.
#include "link/socket_port.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "link/frame.h"

namespace slice::link {
namespace {

using namespace std::chrono_literals;

constexpr IpAddress kLoopback(0x7f000001);

Buffer frame_of(std::size_t size, std::uint8_t first) {
  Buffer out(size);
  std::ranges::fill(out.span(), first);
  return out;
}

class SocketPorts : public ::testing::Test {
 protected:
  void SetUp() override {
    auto target = SocketPort::udp(loop_, metrics_, {kLoopback, 0});
    ASSERT_TRUE(target) << target.error().message;
    target_ = std::move(*target);
    auto mine = SocketPort::udp(loop_, metrics_, {kLoopback, 0}, target_->bound_at());
    ASSERT_TRUE(mine) << mine.error().message;
    mine_ = std::move(*mine);
    to_ = SocketPort::address_of(target_->bound_at());
  }
  rpc::EpollLoop loop_;
  Metrics metrics_;
  std::unique_ptr<SocketPort> target_, mine_;
  Address to_;
};

TEST_F(SocketPorts, CarryFramesThereAndBack) {
  std::vector<std::size_t> there, back;
  target_->set_taker([&](const Address& from, ByteView frame) {
    there.push_back(frame.size());
    target_->send(from, Buffer(frame));
  });
  mine_->set_taker([&](const Address&, ByteView frame) { back.push_back(frame.size()); });
  std::vector<std::size_t> sent;
  for (std::size_t i = 0; i < 40; ++i) {
    sent.push_back(kHeadSize + i);
    mine_->send(to_, frame_of(sent.back(), 1));
  }
  EXPECT_TRUE(loop_.run_until([&] { return back.size() >= sent.size(); }, 5s));
  EXPECT_EQ(there, sent);
  EXPECT_EQ(back, sent);
  EXPECT_EQ(metrics_.counter("link_frames_sent_total").value(), 80U);
}

TEST_F(SocketPorts, KnowWhatAFrameMayBe) {
  EXPECT_EQ(target_->largest(), 65507U);
  EXPECT_GT(mine_->largest(), 1400U);
  EXPECT_GT(mine_->room(1024), 2 * mine_->room(8192));
  EXPECT_EQ(target_->name_of(to_), rpc::to_string(target_->bound_at()));
}

TEST_F(SocketPorts, WhatTheSystemRefusesHoldsUpNothing) {
  std::size_t came = 0;
  target_->set_taker([&](const Address&, ByteView) { ++came; });
  mine_->send(SocketPort::address_of({IpAddress(0xffffffff), 9}),
              frame_of(100, 1));  // broadcast: not allowed
  mine_->send(to_, frame_of(100, 1));
  EXPECT_TRUE(loop_.run_until([&] { return came == 1; }, 5s));
  EXPECT_EQ(metrics_.counter("link_frames_dropped_total").value(), 1U);
}

TEST_F(SocketPorts, MayGoWhileTheyHaveSomethingToSend) {
  mine_->send(to_, frame_of(100, 1));
  mine_.reset();
  loop_.run_until([] { return false; }, 10ms);
}

TEST(HardwareAddresses, AreSixBytes) {
  const auto good = parse_hardware_address("02:00:00:aB:00:7f");
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, (HardwareAddress{2, 0, 0, 0xab, 0, 0x7f}));
  for (const char* bad : {"", "02:00:00:00:00", "02:00:00:00:00:0g", "02-00-00-00-00-01",
                          "02:00:00:00:00:01:", "2:0:0:0:0:1", "02:00:00:00:00:0 "})
    EXPECT_FALSE(parse_hardware_address(bad)) << bad;
}

}  // namespace
}  // namespace slice::link
