// A target and initiators over a simulated wire: random operations under faults, seed by seed, and what each
// rule of the protocol is for, one by one.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "link/frame.h"
#include "link/testing/sim_link.h"

namespace slice::link::testing {
namespace {

struct Recorded {
  std::uint8_t from, to;
  Buffer frame;
};

// All that goes by, from now on.
std::shared_ptr<std::vector<Recorded>> record(SimulatedWire& wire) {
  auto all = std::make_shared<std::vector<Recorded>>();
  wire.watcher = [all](std::uint8_t from, std::uint8_t to, ByteView frame) {
    all->push_back({from, to, Buffer(frame)});
    return true;
  };
  return all;
}

Buffer filled(std::size_t size, std::uint8_t with) {
  Buffer out(size);
  std::ranges::fill(out.span(), with);
  return out;
}

struct Workers {
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<std::unique_ptr<Worker>> all;
};

// Two volumes; of "a" two hosts have parts.
Workers make_workers(SimLink& sim, unsigned seed, int operations) {
  Workers made;
  sim.disks.make("a", 256 << 10);
  sim.disks.make("b", 128 << 10);
  for (unsigned i = 0; i < 6; ++i) {
    made.parts.push_back(std::make_unique<Part>(i < 4 ? "a" : "b", i % 4 * (64 << 10), 64 << 10));
    made.all.push_back(std::make_unique<Worker>(*made.parts.back(), seed * 100 + i, operations));
  }
  return made;
}

std::shared_ptr<Host> start_host(SimLink& sim, Workers& workers, unsigned which) {
  auto host = sim.host(static_cast<std::uint8_t>(10 + which));
  for (unsigned i = which * 2; i < which * 2 + 2; ++i) spawn(workers.all[i]->run(host));
  return host;
}

void flushed_is_durable(SimLink& sim, Workers& workers) {
  sim.kill_target();
  for (const auto& part : workers.parts) {
    const auto& durable = sim.disks.disks[part->volume]->durable;
    for (std::size_t at = 0; at < part->bytes.size(); ++at) {
      if (part->sure[at] == 0 || durable[part->begin + at] == part->bytes[at]) continue;
      ADD_FAILURE() << part->volume << ": byte " << part->begin + at << " was flushed, and is lost";
      break;
    }
  }
}

bool all_done(const Workers& workers) {
  return std::ranges::all_of(workers.all, [](const auto& each) { return each->done(); });
}

Faults bad_wire() {
  return {.lost = 0.03, .twice = 0.03, .changed = 0.01, .late = 0.02, .latest = 800ms};
}

std::uint64_t handshakes(Host& host) {
  return host.metrics.counter("link_handshakes_total").value();
}

class LinkSeeds : public ::testing::TestWithParam<unsigned> {};

TEST_P(LinkSeeds, BytesAreRightUnderFaults) {
  SimLink sim(GetParam());
  sim.wire.faults = bad_wire();
  Workers workers = make_workers(sim, GetParam(), 60);
  for (unsigned which = 0; which < 3; ++which) start_host(sim, workers, which);
  EXPECT_TRUE(sim.loop.run_until([&] { return all_done(workers); }));
  flushed_is_durable(sim, workers);
}

TEST_P(LinkSeeds, AndWhileTheTargetIsKilled) {
  SimLink sim(GetParam());
  sim.wire.faults = bad_wire();
  Workers workers = make_workers(sim, GetParam(), 80);
  for (unsigned which = 0; which < 3; ++which) start_host(sim, workers, which);
  for (int kills = 0; kills < 6 && !all_done(workers); ++kills) {
    sim.loop.advance(Duration(std::chrono::milliseconds(5 + sim.random() % 400)));
    sim.kill_target();
    sim.loop.advance(Duration(std::chrono::milliseconds(sim.random() % 1000)));
    std::vector<std::uint64_t> before;
    for (const auto& host : sim.hosts) before.push_back(handshakes(*host));
    sim.start_target();
    // An opening that an initiator never heard of could be another host's.
    sim.loop.run_until(
        [&] {
          std::size_t working = 0;
          for (std::size_t i = 0; i < before.size(); ++i) {
            working += sim.hosts[i]->working > 0 ? 1 : 0;
            if (sim.hosts[i]->working > 0 && handshakes(*sim.hosts[i]) == before[i]) return false;
          }
          return sim.target->sessions() >= working;
        },
        30s);
  }
  EXPECT_TRUE(sim.loop.run_until([&] { return all_done(workers); }));
  flushed_is_durable(sim, workers);
}

TEST_P(LinkSeeds, AndWhileInitiatorsAreKilled) {
  SimLink sim(GetParam());
  sim.wire.faults = bad_wire();
  Workers workers = make_workers(sim, GetParam(), 80);
  std::vector<std::shared_ptr<Host>> hosts;
  for (unsigned which = 0; which < 3; ++which) hosts.push_back(start_host(sim, workers, which));
  for (int kills = 0; kills < 6 && !all_done(workers); ++kills) {
    sim.loop.advance(Duration(std::chrono::milliseconds(20 + sim.random() % 300)));
    const unsigned which = static_cast<unsigned>(sim.random() % 3);
    auto& host = hosts[which];
    // It says nothing in its end.
    sim.wire.watcher = [which](std::uint8_t from, std::uint8_t, ByteView) { return from != 10 + which; };
    SimLink::stop(*host);
    sim.wire.watcher = {};
    EXPECT_TRUE(sim.loop.run_until([&] { return host->working == 0; }));
    std::erase(sim.hosts, host);
    host.reset();
    host = sim.host(static_cast<std::uint8_t>(10 + which));
    for (unsigned i = which * 2; i < which * 2 + 2; ++i) spawn(workers.all[i]->look_again(host));
    EXPECT_TRUE(sim.loop.run_until([&] { return host->working == 0; }));
    for (unsigned i = which * 2; i < which * 2 + 2; ++i) spawn(workers.all[i]->run(host));
  }
  EXPECT_TRUE(sim.loop.run_until([&] { return all_done(workers); }));
  flushed_is_durable(sim, workers);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LinkSeeds, ::testing::Range(1U, 8U));

// --- one by one -----------------------------------------------------------------------------------------

class Link : public ::testing::Test {
 protected:
  Link() : sim_(1) { sim_.disks.make("a", 4 << 20); }
  std::uint8_t byte(std::uint64_t at) { return sim_.disks.disks["a"]->now[at]; }
  std::uint64_t refused(const char* why) {
    return sim_.metric(fmt::format("link_frames_refused_total{{why=\"{}\"}}", why));
  }
  SimLink sim_;
};

TEST_F(Link, DelayedCopiesOfAWriteUndoNoNewerOne) {
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  const auto old = record(sim_.wire);
  ASSERT_TRUE(sim_.wait(device->write(0, filled(3000, 1), false)));
  sim_.wire.watcher = {};
  // Others with the same tag, and with another one.
  ASSERT_TRUE(sim_.wait(device->write(0, filled(3000, 2), false)));
  const int writes = sim_.disks.disks["a"]->writes;
  for (const Recorded& each : *old) sim_.wire.deliver(each.from, each.to, each.frame.view());
  sim_.loop.advance(1s);
  EXPECT_EQ(sim_.disks.disks["a"]->writes, writes);
  EXPECT_EQ(byte(0), 2);
  EXPECT_GT(refused("stale"), 0U);
}

TEST_F(Link, CopiesOfTheLastWriteAreAnsweredAndDoNothing) {
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  const auto old = record(sim_.wire);
  ASSERT_TRUE(sim_.wait(device->write(0, filled(3000, 1), false)));
  sim_.wire.watcher = {};
  // Somebody else on the same target has written since.
  std::fill_n(sim_.disks.disks["a"]->now.begin(), 3000, std::uint8_t{9});
  for (const Recorded& each : *old) sim_.wire.deliver(each.from, each.to, each.frame.view());
  sim_.loop.advance(1s);
  EXPECT_EQ(byte(0), 9);
  EXPECT_GT(sim_.metric("link_requests_repeated_total"), 0U);
}

TEST_F(Link, NothingOfAnEarlierSessionDoesAnything) {
  auto host = sim_.host(10, {.client = "same"});
  auto device = sim_.open(*host, "a");
  const auto old = record(sim_.wire);
  ASSERT_TRUE(sim_.wait(device->write(0, filled(3000, 1), false)));
  sim_.wire.watcher = {};
  const auto next = sim_.host(11, {.client = "same"});
  const auto device_again = sim_.open(*next, "a");
  ASSERT_TRUE(sim_.wait(device_again->write(0, filled(3000, 2), false)));
  for (const Recorded& each : *old) sim_.wire.deliver(each.from, each.to, each.frame.view());
  sim_.loop.advance(1s);
  EXPECT_EQ(byte(0), 2);
  // And the one before knows that it is over.
  const Status status = sim_.wait(device->write(0, filled(10, 3), false));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kStale);
}

TEST_F(Link, WhatASessionHadBegunIsDoneBeforeTheNextOneBegins) {
  auto host = sim_.host(10, {.client = "same"});
  auto device = sim_.open(*host, "a");
  sim_.disks.shortest = sim_.disks.longest = 3s;
  spawn([](std::shared_ptr<block::Device> on) -> Task<void> {
    (void)co_await on->write(0, filled(3000, 1), false);
  }(device));
  sim_.loop.advance(1s);
  sim_.disks.shortest = sim_.disks.longest = 1ms;
  const auto next = sim_.host(11, {.client = "same"});
  const auto device_again = sim_.open(*next, "a");
  EXPECT_EQ(byte(0), 1);
  ASSERT_TRUE(sim_.wait(device_again->write(0, filled(3000, 2), false)));
  sim_.loop.advance(10s);
  EXPECT_EQ(byte(0), 2);
}

TEST_F(Link, RecordedHandshakesEndNoSession) {
  const auto old = record(sim_.wire);
  auto host = sim_.host(10, {.client = "same"});
  auto device = sim_.open(*host, "a");
  auto next = sim_.host(11, {.client = "same"});
  device = sim_.open(*next, "a");
  sim_.wire.watcher = {};
  const auto again = [&] {
    for (const Recorded& each : *old) {
      if (each.to == kTargetPort) sim_.wire.deliver(each.from, each.to, each.frame.view());
    }
  };
  again();
  EXPECT_TRUE(sim_.wait(device->write(0, filled(10, 1), true)));
  sim_.loop.advance(60s);
  again();
  EXPECT_TRUE(sim_.wait(device->write(0, filled(10, 2), true)));
  EXPECT_EQ(sim_.target->sessions(), 1U);
  EXPECT_GT(refused("ticket"), 0U);
}

TEST_F(Link, WithoutTheKeyNothingIsKeptOrAnswered) {
  const auto frames = sim_.wire.frames;
  const Key other{1};
  for (unsigned i = 0; i < 1000; ++i) {
    const Nonce nonce{static_cast<std::uint8_t>(i)};
    const Buffer hello = sealed(handshake_keys(other).to_target, {.op = Op::kHello}, encode(nonce).view());
    sim_.wire.deliver(66, kTargetPort, hello.view());
    const Handshake handshake{.nonce = nonce, .block = 1024, .client = "x", .volume = "a"};
    sim_.wire.deliver(
        66, kTargetPort,
        sealed(handshake_keys(other).to_target, {.op = Op::kHandshake}, encode(handshake).view()).view());
  }
  sim_.loop.advance(1s);
  EXPECT_EQ(sim_.wire.frames, frames);
  EXPECT_EQ(refused("forged"), 2000U);
  EXPECT_EQ(sim_.target->sessions(), 0U);
}

TEST_F(Link, AFloodOfSessionsThatThereAreNotKeepsNobodyOut) {
  Buffer stray = sealed(Key{1}, {.op = Op::kFlush, .session = 5});
  for (unsigned i = 0; i < 5000; ++i) sim_.wire.deliver(66, kTargetPort, stray.view());
  const auto host = sim_.host(10);
  const auto begun = sim_.loop.now();
  const auto device = sim_.open(*host, "a");
  EXPECT_LT(sim_.loop.now() - begun, 40ms) << "the first HELLO is answered";
}

TEST_F(Link, ForgedFramesOfASessionDoNothing) {
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  const auto old = record(sim_.wire);
  ASSERT_TRUE(sim_.wait(device->write(0, filled(1000, 1), false)));
  sim_.wire.watcher = {};
  for (const Recorded& each : *old) {
    for (std::size_t at = 4; at < each.frame.size(); at += 3) {
      Buffer changed = each.frame.clone();
      changed.data()[at] ^= 2;
      sim_.wire.deliver(each.from, each.to, changed.view());
    }
  }
  sim_.loop.advance(1s);
  EXPECT_EQ(sim_.disks.disks["a"]->writes, 1);
  EXPECT_EQ(byte(0), 1);
  EXPECT_EQ(sim_.wait(device->write(0, filled(1000, 4), false)).has_value(), true);
}

// Whoever has the key and sends what he likes.
class HostileClient {
 public:
  HostileClient(SimLink& sim, std::uint8_t number) : sim_(sim), port_(sim.wire.port(number)) {
    port_->set_taker([this](const Address&, ByteView bytes) { take(bytes); });
    send(handshake_keys(kSharedKey).to_target, {.op = Op::kHello}, encode(nonce_).view());
    sim_.loop.advance(1s);
  }
  void send(const Key& key, Head head, ByteView data) {
    head.session = session;
    port_->send(Address(ByteView(&kTargetPort, 1)), sealed(key, head, data));
  }
  void send(Head head, ByteView data = {}) { send(keys_.to_target, head, data); }
  std::uint64_t session = 0;
  std::size_t congestions = 0;

 private:
  void take(ByteView bytes) {
    const auto frame = decode(bytes);
    if (const auto ticket = decode_ticket_answer(frame->data); frame->head.op == Op::kTicket) {
      const Handshake handshake{
          .nonce = nonce_, .ticket = ticket->ticket, .block = 1024, .client = "hostile", .volume = "a"};
      send(handshake_keys(kSharedKey).to_target, {.op = Op::kHandshake}, encode(handshake).view());
    } else if (frame->head.op == Op::kWelcome) {
      const auto welcome = decode_welcome(frame->data);
      session = frame->head.session;
      keys_ = session_keys(kSharedKey, nonce_, welcome->target_nonce, session);
    } else if (frame->head.op == Op::kCongestion) {
      ++congestions;
    }
  }
  SimLink& sim_;
  std::unique_ptr<SimulatedWire::Port> port_;
  const Nonce nonce_{1, 2, 3};
  Keys keys_;
};

TEST_F(Link, MemoryOfASessionIsBounded) {
  HostileClient client(sim_, 66);
  ASSERT_NE(client.session, 0U);
  // The first blocks of requests that never become whole.
  for (unsigned i = 0; i < 128; ++i) {
    client.send({.op = Op::kWrite, .tag = static_cast<std::uint16_t>(i), .count = 200 << 10, .generation = 1},
                filled(1024, 1).view());
  }
  sim_.loop.advance(1s);
  EXPECT_LE(sim_.metric("link_held_bytes"), 8U << 20);
  EXPECT_GT(sim_.metric("link_held_bytes"), 7U << 20);
  EXPECT_GT(client.congestions, 0U);
  EXPECT_GT(refused("crowded"), 0U);
  // Another one is served, and what the first one held is given back at its end.
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  EXPECT_TRUE(sim_.wait(device->write(0, filled(1 << 20, 1), true)));
  client.send({.op = Op::kLeave});
  sim_.loop.advance(1s);
  EXPECT_EQ(sim_.metric("link_held_bytes"), 0U);
}

TEST_F(Link, OddRequestsDoNothing) {
  HostileClient client(sim_, 66);
  const Buffer block = filled(1024, 1);
  std::uint32_t generation = 0;
  for (const Head& head :
       {Head{.op = Op::kWrite, .tag = 5000, .count = 1024},
        Head{.op = Op::kWrite, .offset = 4 << 20, .count = 1024},
        Head{.op = Op::kWrite, .offset = ~std::uint64_t{0} - 100, .count = 1024},
        Head{.op = Op::kWrite, .count = 0}, Head{.op = Op::kWrite, .count = 0xffffffff},
        Head{.op = Op::kWrite, .fragment = 255, .count = 1024},
        Head{.op = Op::kWrite, .fragment = 1, .count = 1500},
        Head{.op = Op::kZeroes, .offset = 1, .count = 4 << 20},
        Head{.op = Op::kRead, .offset = 4 << 20, .count = 1}, Head{.op = Op::kFlush, .count = 1},
        Head{.op = Op::kWelcome}, Head{.op = Op::kDone}}) {
    Head with = head;
    with.generation = ++generation;
    client.send(with, block.view());
  }
  sim_.loop.advance(1s);
  EXPECT_EQ(sim_.disks.disks["a"]->writes, 0);
  EXPECT_EQ(sim_.disks.disks["a"]->flushes, 0);
}

TEST_F(Link, ReadsAndWritesLargeOnesOfAnyAlignment) {
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  EXPECT_EQ(device->size(), 4U << 20);
  Buffer data(3 << 20);
  for (std::size_t i = 0; i < data.size(); ++i) data.data()[i] = static_cast<std::uint8_t>(i * 31 + i / 1000);
  ASSERT_TRUE(sim_.wait(device->write(12345, data.clone(), false)));
  Buffer back(data.size());
  ASSERT_TRUE(sim_.wait(device->read(12345, back.span())));
  EXPECT_TRUE(std::ranges::equal(back.view(), data.view()));
}

TEST_F(Link, OnlyMissingBlocksAreSentAgain) {
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  sim_.wire.faults.longest = sim_.wire.faults.shortest;
  unsigned chosen = 0;
  sim_.wire.watcher = [&](std::uint8_t, std::uint8_t to, ByteView frame) {
    const auto it = decode(frame);
    const bool one = to == kTargetPort && it->head.op == Op::kWrite && it->head.fragment % 16 == 3;
    return !one || ++chosen > 12;
  };
  ASSERT_TRUE(sim_.wait(device->write(0, filled(200 << 10, 1), false)));
  EXPECT_EQ(chosen, 13U + 12U);
  EXPECT_EQ(host->metrics.counter("link_blocks_sent_again_total").value(), 12U);
  EXPECT_EQ(byte(199 << 10), 1);
}

TEST_F(Link, WhatIsNotFlushedOutlivesTheTarget) {
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  for (unsigned i = 0; i < 100; ++i)
    ASSERT_TRUE(sim_.wait(device->write(i * 4096, filled(4096, static_cast<std::uint8_t>(i + 1)), false)));
  sim_.kill_target();
  sim_.loop.advance(3s);
  sim_.start_target();
  Buffer back(4096);
  for (unsigned i = 0; i < 100; ++i) {
    ASSERT_TRUE(sim_.wait(device->read(i * 4096, back.span())));
    EXPECT_EQ(back.data()[0], i + 1);
    EXPECT_EQ(back.data()[4095], i + 1);
  }
  EXPECT_EQ(host->metrics.counter("link_repeated_bytes_total").value(), 100U * 4096);
}

// What is written again is interrupted, and the next session is with the same target, which has the volume
// still open for somebody else.
TEST_F(Link, WhatWasNotWrittenAgainYetIsInTheNextSession) {
  const auto host = sim_.host(10), other = sim_.host(11);
  const auto device = sim_.open(*host, "a"), theirs = sim_.open(*other, "a");
  for (unsigned i = 0; i < 100; ++i) ASSERT_TRUE(sim_.wait(device->write(i * 4096, filled(4096, 1), false)));
  sim_.kill_target();
  // Nothing that was not flushed is left.
  std::ranges::fill(sim_.disks.disks["a"]->now, std::uint8_t{0});
  sim_.start_target();
  Buffer back(100 * 4096);
  ASSERT_TRUE(sim_.wait(theirs->read(0, back.span().first(512))));
  int writes = 0;
  bool cut = false;
  sim_.wire.watcher = [&](std::uint8_t from, std::uint8_t to, ByteView frame) {
    writes += from == 10 && decode(frame)->head.op == Op::kWrite ? 1 : 0;
    cut |= writes > 150;
    return !cut || (from != 10 && to != 10);
  };
  spawn([](std::shared_ptr<block::Device> of, Buffer& into) -> Task<void> {
    EXPECT_TRUE(co_await of->read(0, into.span()));
  }(device, back));
  sim_.loop.advance(8s);
  ASSERT_TRUE(cut);
  sim_.wire.watcher = {};
  sim_.loop.advance(8s);
  EXPECT_EQ(std::ranges::count(back.view(), 1), 100 * 4096);
  EXPECT_EQ(std::ranges::count(sim_.disks.disks["a"]->durable, 1), 100 * 4096);
}

TEST_F(Link, WhatOthersWroteMeanwhileIsNotUndone) {
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  ASSERT_TRUE(sim_.wait(device->write(0, filled(4096, 1), false)));
  sim_.kill_target();
  sim_.disks.open_elsewhere("a");
  std::fill_n(sim_.disks.disks["a"]->now.begin(), 4096, std::uint8_t{9});
  sim_.start_target();
  Buffer back(10);
  const Status status = sim_.wait(device->read(0, back.span()));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kStale);
  EXPECT_EQ(byte(0), 9);
  EXPECT_FALSE(sim_.wait(host->initiator.open("a")));
  host->initiator.forgive();
  EXPECT_TRUE(sim_.wait(sim_.open(*host, "a")->read(0, back.span())));
}

TEST_F(Link, AFlushIsOfWhatAProcessBeforeWroteAsWell) {
  auto host = sim_.host(10, {.client = "same"});
  ASSERT_TRUE(sim_.wait(sim_.open(*host, "a")->write(0, filled(4096, 1), false)));
  const auto next = sim_.host(11, {.client = "same"});
  ASSERT_TRUE(sim_.wait(sim_.open(*next, "a")->flush()));
  EXPECT_EQ(sim_.disks.disks["a"]->durable[0], 1);
}

TEST_F(Link, WritesBeyondWhatIsKeptAreFlushedBefore) {
  const auto host = sim_.host(10, {.most_unflushed = 64 << 10});
  const auto device = sim_.open(*host, "a");
  for (unsigned i = 0; i < 64; ++i) {
    ASSERT_TRUE(sim_.wait(device->write(i * 8192, filled(8192, 1), false)));
    EXPECT_LE(host->metrics.counter("link_unflushed_bytes").value(), 64U << 10);
  }
  EXPECT_GE(sim_.disks.disks["a"]->flushes, 7);
}

TEST_F(Link, PatienceEndsAndThenItGoesOn) {
  const auto host = sim_.host(10, {.patience = 2s});
  const auto device = sim_.open(*host, "a");
  sim_.kill_target();
  Buffer back(512);
  EXPECT_EQ(sim_.wait(device->read(0, back.span())).error().code, Errc::kTimedOut);
  EXPECT_EQ(sim_.wait(device->write(0, filled(512, 1), true)).error().code, Errc::kTimedOut);
  sim_.start_target();
  ASSERT_TRUE(sim_.wait(device->write(0, filled(512, 2), true)));
  sim_.loop.advance(5s);
  EXPECT_EQ(byte(0), 2);
}

TEST_F(Link, NoSuchVolumeAndNoTarget) {
  const auto host = sim_.host(10, {.patience = 2s});
  EXPECT_EQ(sim_.wait(host->initiator.open("none")).error().code, Errc::kNotFound);
  EXPECT_EQ(sim_.wait(host->initiator.open(std::string(65, 'x'))).error().code, Errc::kNotFound);
  sim_.kill_target();
  EXPECT_EQ(sim_.wait(host->initiator.open("a")).error().code, Errc::kUnavailable);
}

TEST_F(Link, IdleSessionsEndAndComeBack) {
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  ASSERT_TRUE(sim_.wait(device->write(0, filled(512, 1), false)));
  sim_.loop.advance(20min);
  EXPECT_EQ(sim_.target->sessions(), 0U);
  Buffer back(512);
  ASSERT_TRUE(sim_.wait(device->read(0, back.span())));
  EXPECT_EQ(back.data()[0], 1);
  EXPECT_EQ(sim_.target->sessions(), 1U);
}

TEST_F(Link, SessionsAreBounded) {
  std::vector<std::shared_ptr<block::Device>> devices;
  for (unsigned i = 0; i < 32; ++i)
    devices.push_back(sim_.open(*sim_.host(static_cast<std::uint8_t>(100 + i)), "a"));
  const auto one_more = sim_.host(10, {.patience = 2s});
  EXPECT_EQ(sim_.wait(one_more->initiator.open("a")).error().code, Errc::kUnavailable);
  sim_.hosts[0]->initiator.close();
  sim_.loop.advance(1s);
  EXPECT_TRUE(sim_.wait(one_more->initiator.open("a")));
}

TEST_F(Link, KeysAreExchanged) {
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  const Key next{8, 8};
  sim_.target->replace_keys({next, kSharedKey});
  ASSERT_TRUE(sim_.wait(device->write(0, filled(512, 1), true)));
  host->initiator.set_key(next);
  sim_.target->replace_keys({next});
  ASSERT_TRUE(sim_.wait(device->write(0, filled(512, 2), true)));
  sim_.kill_target();
  sim_.start_target();
  sim_.target->replace_keys({next});
  ASSERT_TRUE(sim_.wait(device->write(0, filled(512, 3), true)));
}

TEST_F(Link, APortThatTakesLittleGetsLittle) {
  sim_.target.reset();
  sim_.port.reset();
  sim_.port = sim_.wire.port(kTargetPort, 1472, 32 << 10);
  sim_.target = std::make_unique<Target>(sim_.loop, sim_.metrics, sim_.disks, sim_.target_options());
  sim_.target->serve(*sim_.port);
  const auto host = sim_.host(10);
  const auto device = sim_.open(*host, "a");
  std::size_t since_answer = 0, most = 0;
  sim_.wire.watcher = [&](std::uint8_t, std::uint8_t to, ByteView) {
    since_answer = to == kTargetPort ? since_answer + 1 : 0;
    most = std::max(most, since_answer);
    return true;
  };
  ASSERT_TRUE(sim_.wait(device->write(0, filled(1 << 20, 1), false)));
  EXPECT_LE(most, 33U);
}

}  // namespace
}  // namespace slice::link::testing
