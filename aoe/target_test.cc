// A target and clients of it over a simulated wire.
#include "aoe/target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "aoe/wire.h"
#include "common/manual_loop.h"
#include "link/testing/sim_disks.h"
#include "link/testing/simulated_wire.h"

namespace slice::aoe {
namespace {

using namespace std::chrono_literals;
using link::testing::SimDisks;
using link::testing::SimulatedWire;

constexpr std::uint8_t kTarget = 1, kClient = 2, kStranger = 3;
constexpr Place kPlace{7, 1};
constexpr std::size_t kDisk = 64 << 10;

struct Answer {
  Head head;
  Buffer rest;
  Ata ata() const { return decode_ata(rest.view())->ata; }
  bool good() const { return ata().command == ata::kReady; }
  ByteView data() const { return decode_ata(rest.view())->data; }
};

// Who sends frames from one address, and has what comes back by tag.
class Sender {
 public:
  Sender(SimulatedWire& wire, std::uint8_t number) : wire_(wire), port_(wire.port(number)) {
    port_->set_taker([this](const link::Address&, ByteView bytes) {
      const auto frame = decode(bytes);
      ASSERT_TRUE(frame);
      EXPECT_TRUE(frame->head.answer);
      answers[frame->head.tag].push_back({frame->head, Buffer(frame->rest)});
    });
  }
  void send(Buffer frame) {
    if (together_ != nullptr) return together_->push_back(std::move(frame));
    port_->send(link::Address(ByteView(&kTarget, 1)), std::move(frame));
  }
  // All that `sends` sends comes in one round of the target's loop.
  void together(ManualLoop& loop, const std::function<void()>& sends) {
    auto frames = std::make_shared<std::vector<Buffer>>();
    together_ = frames.get();
    sends();
    together_ = nullptr;
    loop.post([this, frames] {
      for (const Buffer& frame : *frames) wire_.deliver(kClient, kTarget, frame.view());
    });
  }
  std::uint32_t ask(Ata ata, ByteView data = {}) {
    send(encode(Head{.place = kPlace, .tag = ++last_}, ata, data));
    return last_;
  }
  std::uint32_t read(std::uint64_t sector, std::uint8_t count = 2) {
    return ask({.extended = true, .count = count, .command = ata::kReadExtended, .sector = sector});
  }
  std::uint32_t write(std::uint64_t sector, std::uint8_t with, std::uint8_t count = 2) {
    const std::vector<std::uint8_t> data(count * kSector, with);
    return ask(
        {.extended = true, .write = true, .count = count, .command = ata::kWriteExtended, .sector = sector},
        data);
  }
  std::uint32_t config(Asks asks, std::string_view text, Place place = kPlace) {
    send(encode(Head{.place = place, .command = 1, .tag = ++last_},
                Config{.asks = static_cast<std::uint8_t>(asks), .text = text}));
    return last_;
  }
  bool answered(std::uint32_t tag) const { return answers.contains(tag); }
  const Answer& of(std::uint32_t tag) const { return answers.at(tag).front(); }

  std::map<std::uint32_t, std::vector<Answer>> answers;

 private:
  SimulatedWire& wire_;
  const std::unique_ptr<SimulatedWire::Port> port_;
  std::vector<Buffer>* together_ = nullptr;
  std::uint32_t last_ = 0;
};

class AoeTarget : public ::testing::Test {
 protected:
  AoeTarget() : wire_(loop_, 1), disks_(loop_, 1), port_(wire_.port(kTarget)) {
    wire_.faults.longest = wire_.faults.shortest;  // in order, as on one cable
    disks_.make("vm", kDisk);
    disks_.make("other", kDisk);
    start();
  }
  void start(std::size_t requests = 128) {
    target_ = std::make_unique<Target>(
        loop_, metrics_, disks_,
        TargetOptions{.disks = {{kPlace, "vm"}, {{7, 2}, "other"}}, .requests = requests});
    target_->serve(*port_, {link::Address(ByteView(&kClient, 1))});
    loop_.advance(1ms);
    client_.answers.clear();
  }
  std::uint64_t count(const std::string& sample) { return metrics_.counter(sample).value(); }
  std::uint64_t refused(const std::string& why) {
    return count("aoe_frames_refused_total{why=\"" + why + "\"}");
  }
  std::uint8_t byte_at(std::size_t sector) { return disks_.disks["vm"]->now[sector * kSector]; }

  ManualLoop loop_;
  SimulatedWire wire_;
  SimDisks disks_;
  Metrics metrics_;
  const std::unique_ptr<SimulatedWire::Port> port_;
  Sender client_{wire_, kClient};
  std::unique_ptr<Target> target_;
};

TEST_F(AoeTarget, TellsItsClientsWhatThereIs) {
  target_ = std::make_unique<Target>(loop_, metrics_, disks_, TargetOptions{.disks = {{kPlace, "vm"}}});
  target_->serve(*port_, {link::Address(ByteView(&kClient, 1))});
  loop_.advance(1ms);
  ASSERT_TRUE(client_.answered(0));
  EXPECT_EQ(decode_config(client_.of(0).rest.view())->text, "vm");
}

TEST_F(AoeTarget, AnswersWhoAsksForAll) {
  const auto all = client_.config(Asks::kRead, "", kEverywhere), one = client_.config(Asks::kRead, "");
  const auto shelf = client_.config(Asks::kBegins, "v", {7, 0xff}),
             none = client_.config(Asks::kSame, "v", kEverywhere);
  const auto elsewhere = client_.config(Asks::kRead, "", {8, 1});
  loop_.advance(1ms);
  EXPECT_EQ(client_.answers[all].size(), 2U);
  EXPECT_EQ(client_.of(all).head.place, kPlace);
  EXPECT_EQ(client_.answers[one].size(), 1U);
  const auto told = decode_config(client_.of(one).rest.view());
  EXPECT_EQ(told->text, "vm");
  EXPECT_EQ(told->sectors, 2);  // of a frame of 1472 bytes
  EXPECT_EQ(told->buffers, 128);
  EXPECT_EQ(client_.answers[shelf].size(), 1U);
  EXPECT_FALSE(client_.answered(none));
  EXPECT_FALSE(client_.answered(elsewhere));
  EXPECT_EQ(refused("elsewhere"), 1U);
}

TEST_F(AoeTarget, HasItsTextFromNobody) {
  const auto other = client_.config(Asks::kReplace, "mine"), same = client_.config(Asks::kSet, "vm");
  loop_.advance(1ms);
  EXPECT_EQ(client_.of(other).head.failure, Failure::kTextPresent);
  EXPECT_EQ(client_.of(same).head.failure, Failure::kNone);
}

TEST_F(AoeTarget, SaysWhatItsDiskIs) {
  const auto tag = client_.ask({.count = 1, .command = ata::kIdentify});
  loop_.advance(2ms);
  ASSERT_TRUE(client_.answered(tag));
  EXPECT_TRUE(client_.of(tag).good());
  EXPECT_EQ(client_.of(tag).data().size(), kSector);
  EXPECT_EQ(client_.of(tag).data()[200], kDisk / kSector);
  const auto power = client_.ask({.command = ata::kCheckPower});
  loop_.advance(2ms);
  EXPECT_EQ(client_.of(power).ata().count, 0xff);
}

TEST_F(AoeTarget, SaysSoWhenItsDiskHasGrown) {
  client_.write(0, 1);
  loop_.advance(2ms);
  disks_.make("vm", 2 * kDisk);
  disks_.kill();
  loop_.advance(2s);
  const auto tag = client_.ask({.count = 1, .command = ata::kIdentify});
  loop_.advance(2ms);
  EXPECT_EQ(client_.of(tag).data()[200] | client_.of(tag).data()[201] << 8, 2 * kDisk / kSector);
}

TEST_F(AoeTarget, WhatIsAnsweredIsDurable) {
  const auto written = client_.write(4, 0x55);
  loop_.advance(2ms);
  ASSERT_TRUE(client_.answered(written));
  EXPECT_TRUE(client_.of(written).good());
  disks_.kill();
  EXPECT_EQ(disks_.disks["vm"]->durable[4 * kSector], 0x55);
  EXPECT_EQ(disks_.disks["vm"]->durable[6 * kSector - 1], 0x55);
  EXPECT_EQ(disks_.disks["vm"]->durable[6 * kSector], 0);
}

TEST_F(AoeTarget, NeighboursAreOneOperation) {
  std::vector<std::uint32_t> tags;
  client_.together(loop_, [&] {
    for (std::uint8_t i = 0; i < 16; ++i) tags.push_back(client_.write(i * 2U, i + 1));
    tags.push_back(client_.write(100, 99));
  });
  loop_.advance(5ms);
  for (const auto tag : tags) ASSERT_TRUE(client_.answered(tag) && client_.of(tag).good());
  EXPECT_EQ(disks_.disks["vm"]->writes, 2);
  std::vector<std::uint32_t> reads;
  client_.together(loop_, [&] {
    for (std::uint8_t i = 0; i < 16; ++i) reads.push_back(client_.read(i * 2U));
  });
  loop_.advance(5ms);
  for (std::uint8_t i = 0; i < 16; ++i) {
    const ByteView data = client_.of(reads[i]).data();
    ASSERT_EQ(data.size(), 2 * kSector);
    EXPECT_TRUE(std::ranges::all_of(data, [&](std::uint8_t byte) { return byte == i + 1; })) << int(i);
  }
  EXPECT_EQ(count("aoe_operations_total"), 3U);
  EXPECT_EQ(count("aoe_written_bytes_total"), 17U * 1024);
  EXPECT_EQ(count("aoe_read_bytes_total"), 16U * 1024);
}

TEST_F(AoeTarget, ABlockIsOneOperationThoughItsFramesComeOneByOne) {
  std::vector<std::uint32_t> tags;
  for (std::uint8_t i = 0; i < 4; ++i) {
    tags.push_back(client_.write(8 + i * 2U, i + 1));
    loop_.advance(5us);
  }
  loop_.advance(5ms);
  for (const auto tag : tags) ASSERT_TRUE(client_.answered(tag) && client_.of(tag).good());
  EXPECT_EQ(disks_.disks["vm"]->writes, 1);
  const auto alone = client_.write(2, 9);  // the rest of its block does not come
  loop_.advance(5ms);
  EXPECT_TRUE(client_.of(alone).good());
  EXPECT_EQ(disks_.disks["vm"]->writes, 2);
}

TEST_F(AoeTarget, WritesThatOverlapAreDoneAsTheyCame) {
  for (std::uint8_t i = 1; i < 100; ++i) client_.write(i % 2, i);
  loop_.advance(200ms);
  EXPECT_EQ(byte_at(0), 98);
  EXPECT_EQ(byte_at(1), 99);
  EXPECT_EQ(byte_at(2), 99);
}

TEST_F(AoeTarget, NothingIsDoneBeyondTheEnd) {
  constexpr std::uint64_t kEnd = kDisk / kSector;
  const auto last = client_.write(kEnd - 2, 1), across = client_.write(kEnd, 2),
             far = client_.read(1ULL << 47);
  const auto half = client_.read(kEnd - 1);
  loop_.advance(5ms);
  EXPECT_TRUE(client_.of(last).good());
  for (const auto tag : {across, far, half}) {
    EXPECT_FALSE(client_.of(tag).good());
    EXPECT_EQ(client_.of(tag).ata().feature, ata::kNoAddress);
  }
  EXPECT_EQ(refused("range"), 3U);
  EXPECT_EQ(target_->running(), 0U);
}

TEST_F(AoeTarget, SaysWhatIsWrongWithAFrame) {
  const auto none = client_.read(0, 0), more = client_.read(0, 3);
  const auto unknown = client_.ask({.command = 0xb0});
  const auto no_data =
      client_.ask({.extended = true, .write = true, .count = 2, .command = ata::kWriteExtended});
  const auto no_write = client_.ask({.extended = true, .count = 1, .command = ata::kWriteExtended},
                                    std::vector<std::uint8_t>(kSector));
  loop_.advance(5ms);
  for (const auto tag : {none, more, unknown, no_data, no_write}) EXPECT_FALSE(client_.of(tag).good());
  client_.send(encode(Head{.version = 2, .place = kPlace, .tag = 1000}, Ata{}));
  client_.send(encode(Head{.place = kPlace, .command = 2, .tag = 1001}, Ata{}));
  client_.send(Buffer(encode(Head{.place = kPlace, .tag = 1002}, Ata{}).view().first(kHeadSize + 3)));
  client_.send(encode(Head{.answer = true, .place = kPlace, .tag = 1003}, Ata{}));
  client_.send(Buffer(std::size_t{5}));
  client_.send(encode(Head{.place = kEverywhere, .tag = 1004}, Ata{.count = 1, .command = ata::kIdentify}));
  loop_.advance(5ms);
  EXPECT_EQ(client_.of(1000).head.failure, Failure::kVersion);
  EXPECT_EQ(client_.of(1001).head.failure, Failure::kCommand);
  EXPECT_EQ(client_.of(1002).head.failure, Failure::kArgument);
  EXPECT_FALSE(client_.answered(1003) || client_.answered(1004));
  EXPECT_EQ(disks_.disks["vm"]->writes, 0);
  EXPECT_EQ(target_->running(), 0U);
}

TEST_F(AoeTarget, WhoIsNoClientGetsNothing) {
  Sender stranger(wire_, kStranger);
  const auto written = stranger.write(0, 1), asked = stranger.config(Asks::kRead, "", kEverywhere);
  loop_.advance(5ms);
  EXPECT_FALSE(stranger.answered(written) || stranger.answered(asked));
  EXPECT_EQ(byte_at(0), 0);
  EXPECT_EQ(refused("stranger"), 2U);
}

TEST_F(AoeTarget, AClientHasSoManyRequestsAtOnce) {
  start(8);
  std::vector<std::uint32_t> tags;
  for (unsigned i = 0; i < 20; ++i) tags.push_back(client_.write(i * 4, 7));
  loop_.advance(50us);
  EXPECT_LE(target_->running(), 8U);
  loop_.advance(50ms);
  EXPECT_EQ(std::ranges::count_if(tags, [&](std::uint32_t tag) { return client_.answered(tag); }), 8);
  EXPECT_EQ(refused("crowded"), 12U);
  const auto again = client_.write(19 * 4, 7);
  loop_.advance(5ms);
  EXPECT_TRUE(client_.of(again).good());
}

TEST_F(AoeTarget, ARequestThatComesTwiceIsDoneOnce) {
  const std::vector<std::uint8_t> data(kSector, 9);
  const Ata ata{.extended = true, .write = true, .count = 1, .command = ata::kWriteExtended};
  client_.send(encode(Head{.place = kPlace, .tag = 5}, ata, data));
  client_.send(encode(Head{.place = kPlace, .tag = 5}, ata, data));
  loop_.advance(5ms);
  EXPECT_EQ(client_.answers[5].size(), 1U);
  EXPECT_EQ(refused("repeated"), 1U);
}

TEST_F(AoeTarget, AVolumeThatIsNotThereIsAnError) {
  disks_.disks.erase("vm");
  const auto tag = client_.read(0);
  loop_.advance(5ms);
  EXPECT_FALSE(client_.of(tag).good());
  disks_.make("vm", kDisk);
  const auto again = client_.read(0);
  loop_.advance(5ms);
  EXPECT_TRUE(client_.of(again).good());
}

TEST_F(AoeTarget, EndsWhileRequestsAreUnderWay) {
  client_.write(0, 1);
  loop_.advance(50us);
  target_->finish();
  EXPECT_EQ(target_->running(), 1U);
  const auto late = client_.write(4, 1);
  target_.reset();
  loop_.advance(5ms);
  EXPECT_FALSE(client_.answered(late));
  EXPECT_EQ(byte_at(0), 1);
  EXPECT_EQ(byte_at(4), 0);
}

// As the kernel's driver: a request is sent again under another tag, and only the last one's answer counts.
class Driver {
 public:
  Driver(ManualLoop& loop, Sender& sender, unsigned seed) : loop_(loop), sender_(sender), random_(seed) {}

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      const std::uint64_t sector = random_() % (kDisk / kSector - 1);
      if (random_() % 2 == 0) {
        const auto with = static_cast<std::uint8_t>(random_());
        ASSERT_TRUE(until_answered([&] { return sender_.write(sector, with); }));
        std::fill_n(model_.begin() + static_cast<std::ptrdiff_t>(sector * kSector), 2 * kSector, with);
      } else {
        const auto tag = until_answered([&] { return sender_.read(sector); });
        ASSERT_TRUE(tag);
        EXPECT_TRUE(std::ranges::equal(sender_.of(*tag).data(),
                                       std::span(model_).subspan(sector * kSector, 2 * kSector)))
            << "operation " << i;
      }
    }
  }

 private:
  std::optional<std::uint32_t> until_answered(const std::function<std::uint32_t()>& send) {
    for (int tries = 0; tries < 100; ++tries) {
      const std::uint32_t tag = send();
      loop_.advance(std::chrono::microseconds(100 + random_() % 600));
      if (sender_.answered(tag) && sender_.of(tag).good()) return tag;
    }
    return {};
  }

  ManualLoop& loop_;
  Sender& sender_;
  std::mt19937 random_;
  std::vector<std::uint8_t> model_ = std::vector<std::uint8_t>(kDisk);
};

TEST_F(AoeTarget, BytesAreRightWhileFramesAreLostAndComeTwice) {
  wire_.faults.lost = wire_.faults.twice = 0.1;
  Driver driver(loop_, client_, 3);
  driver.run(400);
  EXPECT_GT(refused("repeated") + refused("crowded"), 0U);
}

}  // namespace
}  // namespace slice::aoe
