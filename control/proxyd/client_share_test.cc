#include "control/proxyd/client_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/manual_loop.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;
using routing::ClientSlots;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t kSelf = 2, kVirtual = 0x0a4d0101;
constexpr std::uint16_t kNfs = 2049, kMount = 20048;

const wire::Sharer kMe{kSelf, {2, 0, 0, 0, 0, 2}}, kThree{3, {2, 0, 0, 0, 0, 3}},
    kFour{4, {2, 0, 0, 0, 0, 4}};

// A client's connection that these give to this server.
wire::AddressPeer client_of(const wire::Sharers& sharers, std::uint32_t server, std::uint32_t skip = 0) {
  const ClientSlots slots(sharers);
  std::uint32_t client = 0x0a4d0200;
  while (slots.of(client) != server || skip-- > 0) ++client;
  return {client, 700, kNfs};
}

class FakeHost : public AddressHost {
 public:
  Look look() override {
    return {.has = has,
            .at_loopback = at_loopback,
            .unfit = unfit,
            .unshared = unshared,
            .interface = 7,
            .hardware = kMe.hardware};
  }
  Status put(unsigned) override { return {}; }
  Status take_off() override { return {}; }
  Status put_at_loopback(unsigned seconds) override {
    life = seconds;
    at_loopback = true;
    return {};
  }
  Status take_off_loopback() override {
    at_loopback = false;
    return {};
  }
  void drop_connections(const Keep& keep) override {
    std::erase_if(connected, [&](const wire::AddressPeer& peer) { return !keep(peer); });
  }
  void announce() override {}
  void probe() override {}
  std::vector<wire::AddressPeer> peers() override { return connected; }
  void wake(const std::vector<wire::AddressPeer>& peers) override {
    woken.insert(woken.end(), peers.begin(), peers.end());
  }

  std::vector<wire::AddressPeer> connected, woken;
  bool has = false, at_loopback = false;
  std::string unfit, unshared;
  unsigned life = 0;
};

class StoppedLoop : public ManualLoop {
 public:
  MonoTime now_exactly() const override { return now() + stood_still; }
  Duration stood_still{};
};

class ClientShareTest : public ::testing::Test {
 protected:
  ClientShareTest() {
    tables_.spread = slots_.data();
    tables_.ways = ways_.data();
    share_.emplace(
        ClientShare::Seams{.loop = loop_,
                           .metrics = metrics_,
                           .host = host_,
                           .tables = tables_,
                           .self = kSelf,
                           .run = 1,
                           .patience = 2s,
                           .addresses = {kVirtual},
                           .nfs_port = kNfs,
                           .name_of = [](std::uint32_t server) { return "s" + std::to_string(server); },
                           .ask = [this](const wire::ShareClientsArgs& args,
                                         Duration patience) { return answer(args, patience); },
                           .program = [this] { return program_; },
                           .holds = [this] { return holds_; },
                           .begin_anew =
                               [this] {
                                 done_.emplace_back("forget");
                                 return true;
                               },
                           .save = [this] { return save(); },
                           .serve_until = [this](MonoTime end) { serves_until_ = end; },
                           .remember_nothing = [this](bool on) { remembers_ = !on; }});
    loop_.advance(10s);
  }
  void TearDown() override {
    spawn(share_->stop());
    loop_.advance(10s);
  }

  Task<Result<wire::ShareClientsResult>> answer(wire::ShareClientsArgs args, Duration patience) {
    asked_.push_back(args);
    if (silent_) {
      co_await loop_.sleep(patience);
      co_return fail(Errc::kUnavailable, "no answer");
    }
    co_await loop_.sleep(1ms);
    co_return wire::ShareClientsResult{.known = known_,
                                       .patience_ms = 2000,
                                       .current = current_,
                                       .wanted = wanted_,
                                       .peers_digest = told_,
                                       .left = left_,
                                       .left_ns = left_ns_};
  }
  Task<void> save() {
    co_await loop_.sleep(10ms);
    done_.emplace_back("saved");
  }
  void start() {
    spawn(share_->start());
    loop_.advance(silent_ ? 600ms : 10ms);
    share_->begin();
    loop_.advance(50ms);
  }
  void set(wire::Sharers current) { current_ = wanted_ = std::move(current); }
  void share(const wire::Sharers& current) {
    start();
    wanted_ = current;
    loop_.advance(1s);
    set(current);
    loop_.advance(1s);
    ASSERT_TRUE(serves());
    done_.clear();
    asked_.clear();
  }
  void pass(Duration time) { loop_.advance(time); }
  bool serves() const { return loop_.now_exactly() <= serves_until_; }
  // Where packets of a client go: the last byte of the hardware address; 0: they stay.
  int goes_to(const wire::AddressPeer& peer) const {
    const std::uint64_t key = slots_[slice_client_slot(SLICE_BE32(peer.address.v4()))];
    return key == 0 ? 0 : ways_[key].next_hop_mac[5];
  }

  StoppedLoop loop_;
  Metrics metrics_;
  FakeHost host_;
  std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(SLICE_CLIENT_SLOTS);
  std::vector<slice_way> ways_ = std::vector<slice_way>(SLICE_MAX_SPREAD);
  Tables tables_;
  ClientShare::Program program_{.there = true, .reason = {}};
  std::vector<std::string> done_;
  std::vector<wire::ShareClientsArgs> asked_;
  bool known_ = true, silent_ = false, holds_ = false, remembers_ = true;
  wire::Sharers current_, wanted_;
  std::vector<wire::AddressPeer> left_;
  std::uint64_t told_ = 0, left_ns_ = 1000;
  MonoTime serves_until_{};
  std::optional<ClientShare> share_;
};

TEST_F(ClientShareTest, StandsByWhileNobodyShares) {
  start();
  pass(10s);
  EXPECT_FALSE(serves());
  EXPECT_TRUE(host_.at_loopback) << "it is fit, and may be sent clients at any time";
  EXPECT_EQ(host_.life, 3u);
  EXPECT_TRUE(asked_.back().fit);
  EXPECT_FALSE(asked_.back().serves);
  EXPECT_EQ(share_->describe(), "");
}

TEST_F(ClientShareTest, IsReadyBeforeItGetsClients) {
  start();
  done_.clear();
  const wire::Sharers both{kMe, kThree};
  host_.connected = {client_of(both, kSelf)};  // of an earlier time
  wanted_ = both;
  ASSERT_TRUE(loop_.run_until([&] { return asked_.back().prepared == digest(both); }, 1s));
  EXPECT_THAT(done_, ElementsAre("forget", "saved"));
  EXPECT_THAT(host_.connected, IsEmpty());
  EXPECT_TRUE(serves()) << "who has the address may send them before this one hears of it";
  EXPECT_FALSE(remembers_) << "until it is over";
  EXPECT_FALSE(asked_.back().serves);
  set(both);
  pass(400ms);
  EXPECT_TRUE(asked_.back().serves);
  EXPECT_FALSE(remembers_) << "who has the address may not have heard yet";
  pass(700ms);
  EXPECT_TRUE(remembers_);
  EXPECT_EQ(asked_.back().prepared, 0u);
  EXPECT_THAT(share_->describe(), HasSubstr("% of the clients over TCP, beside s3"));
}

TEST_F(ClientShareTest, SendsOthersClientsOnAndEndsTheirConnections) {
  const wire::Sharers both{kMe, kThree};
  const wire::AddressPeer mine = client_of(both, kSelf), other = client_of(both, 3),
                          here{kVirtual, 800, kNfs};
  const wire::AddressPeer mount{other.address, 900, kMount};
  share(both);
  EXPECT_EQ(goes_to(mine), 0);
  EXPECT_EQ(goes_to(other), 3);
  host_.connected = {mine, other, here, mount};
  pass(700ms);
  EXPECT_THAT(host_.connected, ElementsAre(mine, here, mount)) << "a client of this host, and MOUNT, stay";
  EXPECT_EQ(metrics_.counter("proxy_foreign_connections_ended_total").value(), 1u);
  EXPECT_TRUE(share_->keeps(mine));
  EXPECT_FALSE(share_->keeps(other));
  EXPECT_FALSE(share_->keeps(mount));
}

TEST_F(ClientShareTest, WhoHasTheAddressServesAllUntilOthersTakeTheirPart) {
  holds_ = host_.has = true;
  start();
  const wire::Sharers both{kMe, kThree};
  const wire::AddressPeer mine = client_of(both, kSelf), other = client_of(both, 3);
  host_.connected = {mine, other};
  pass(2s);
  wanted_ = both;
  pass(2s);
  EXPECT_THAT(host_.connected, ElementsAre(mine, other)) << "until the other is ready";
  EXPECT_EQ(goes_to(other), 0);
  set(both);
  pass(400ms);
  EXPECT_EQ(goes_to(other), 3);
  pass(1s);
  EXPECT_THAT(host_.connected, ElementsAre(mine));
}

TEST_F(ClientShareTest, WhoTakesTheAddressAndIsNoSharerLeavesClientsWhereTheyAre) {
  const wire::Sharers others{kThree, kFour};
  set(others);
  start();
  holds_ = host_.has = true;
  host_.connected = {client_of(others, 3)};
  pass(2s);
  EXPECT_EQ(goes_to(client_of(others, 3)), 3);
  EXPECT_THAT(host_.connected, IsEmpty());
  program_ = {.there = false, .reason = "XDP is off"};
  host_.connected = {client_of(others, 3)};
  pass(2s);
  EXPECT_EQ(host_.connected.size(), 1u) << "without the program nothing goes elsewhere";
}

TEST_F(ClientShareTest, TakesClientsOfOneThatDiedBeforeItHearsThatItIsGone) {
  const wire::Sharers three{kMe, kThree, kFour}, two{kMe, kFour};
  share(three);
  std::uint32_t skip = 0;
  wire::AddressPeer gained = client_of(three, 3);
  while (ClientSlots(two).of(gained.address) != kSelf) gained = client_of(three, 3, ++skip);
  EXPECT_EQ(goes_to(gained), 3);
  wanted_ = two;
  pass(400ms);
  EXPECT_EQ(goes_to(gained), 0);
  EXPECT_EQ(goes_to(client_of(three, 4)), 4);
  host_.connected = {gained};
  set(two);
  pass(1s);
  EXPECT_THAT(host_.connected, ElementsAre(gained));
}

TEST_F(ClientShareTest, WakesTheClientsOfOneThatIsGoneWhereItHasTheAddress) {
  share({kMe, kThree});
  left_ = {{1, 40000, kNfs}};
  set({kMe});
  pass(1s);
  EXPECT_THAT(host_.woken, IsEmpty()) << "that is the holder's";
  holds_ = true;
  pass(10s);
  EXPECT_EQ(host_.woken, (std::vector<wire::AddressPeer>(7, {1, 40000, kNfs})));
  left_ns_ = 2000;  // it has died again, and had the same
  pass(10s);
  EXPECT_EQ(host_.woken.size(), 14u);
}

TEST_F(ClientShareTest, TellsTheManagerOfItsClients) {
  const wire::Sharers both{kMe, kThree};
  share(both);
  host_.connected = {client_of(both, kSelf)};
  pass(1s);
  EXPECT_EQ(asked_.back().peers, host_.connected);
  told_ = digest(host_.connected);
  pass(1s);
  EXPECT_THAT(asked_.back().peers, IsEmpty()) << "it has them";
  host_.connected.push_back(client_of(both, kSelf, 1));
  std::ranges::sort(host_.connected);
  asked_.clear();
  share_->connected();
  ASSERT_FALSE(asked_.empty()) << "at once, for this proxy may die in a moment";
  EXPECT_EQ(asked_[0].peers, host_.connected);
}

TEST_F(ClientShareTest, WithoutAManagerItServesOnAndRemembersNothing) {
  const wire::Sharers both{kMe, kThree};
  share(both);
  host_.connected = {client_of(both, kSelf)};
  silent_ = true;
  pass(500ms);
  EXPECT_TRUE(remembers_);
  pass(1s);
  EXPECT_FALSE(remembers_);
  EXPECT_THAT(done_, ElementsAre("saved"));
  pass(60s);
  EXPECT_TRUE(serves());
  EXPECT_EQ(host_.connected.size(), 1u);
  EXPECT_EQ(goes_to(client_of(both, 3)), 3);
  silent_ = false;
  pass(1s);
  EXPECT_TRUE(remembers_);
}

TEST_F(ClientShareTest, OneThatStoodStillServesNobodyAndAsksAnew) {
  const wire::Sharers both{kMe, kThree};
  share(both);
  host_.connected = {client_of(both, kSelf)};
  set({kThree});
  loop_.stood_still = 10s;
  EXPECT_FALSE(serves());
  pass(400ms);
  EXPECT_FALSE(serves());
  EXPECT_THAT(host_.connected, IsEmpty()) << "what was in their sockets was sent again to others";
  pass(400ms);
  EXPECT_FALSE(asked_.back().serves);
  EXPECT_TRUE(asked_.back().fit);
  set(both);
  pass(400ms);
  EXPECT_TRUE(serves()) << "the manager has it back";
}

TEST_F(ClientShareTest, OneThatStoodStillWhileItPreparedIsNotCarefulForEver) {
  const wire::Sharers both{kMe, kThree}, two{kMe, kFour};
  share(both);
  wanted_ = two;
  ASSERT_TRUE(loop_.run_until([this] { return !remembers_; }, 1s));
  loop_.stood_still = 10s;
  set({kThree});
  pass(1s);
  EXPECT_TRUE(remembers_);
  EXPECT_EQ(asked_.back().prepared, 0u);
}

TEST_F(ClientShareTest, OneThatIsNoneAnyMoreEndsItsConnections) {
  const wire::Sharers both{kMe, kThree};
  share(both);
  host_.connected = {client_of(both, kSelf)};
  set({kThree});
  pass(400ms);
  EXPECT_FALSE(serves());
  EXPECT_THAT(host_.connected, IsEmpty());
  EXPECT_THAT(done_, ElementsAre("saved"));
  EXPECT_EQ(goes_to(client_of(both, 3)), 3) << "who may have the address next sends clients where they are";
}

TEST_F(ClientShareTest, SaysWhyItIsNotFit) {
  host_.unshared = "net.ipv4.conf.eth0.arp_ignore is 0, not 1";
  start();
  pass(1s);
  EXPECT_FALSE(asked_.back().fit);
  EXPECT_FALSE(host_.at_loopback) << "this host would answer ARP";
  EXPECT_EQ(share_->describe(), "shares no clients with others: net.ipv4.conf.eth0.arp_ignore is 0, not 1");
  host_.unshared.clear();
  pass(1s);
  ASSERT_TRUE(host_.at_loopback);
  program_ = {.there = false, .reason = "XDP is off"};
  pass(1s);
  EXPECT_FALSE(asked_.back().fit);
  EXPECT_EQ(share_->describe(), "shares no clients with others: XDP is off");
  program_ = {.there = true, .reason = {}};
  pass(1s);
  EXPECT_TRUE(asked_.back().fit);
}

TEST_F(ClientShareTest, GoesOnWhereARunBeforeServed) {
  const wire::Sharers both{kMe, kThree};
  host_.at_loopback = true;
  host_.connected = {client_of(both, kSelf)};
  program_ = {.there = false, .loading = true, .reason = "not loaded yet"};
  set(both);
  start();
  EXPECT_TRUE(serves());
  EXPECT_TRUE(std::ranges::all_of(asked_, [](const auto& each) { return each.fit && each.serves; }));
  EXPECT_EQ(host_.connected.size(), 1u);
  program_ = {.there = true, .reason = {}};
  pass(1s);
  EXPECT_TRUE(serves());
}

TEST_F(ClientShareTest, GoesOnWhereARunBeforeServedAndNoManagerAnswers) {
  slots_[5] = 1;
  host_.at_loopback = true;
  host_.connected = {{0x0a4d0203, 700, kNfs}, {0x0a4d0204, 700, kNfs}};
  silent_ = true;
  start();
  pass(5s);
  EXPECT_TRUE(serves());
  EXPECT_EQ(host_.connected.size(), 2u);
  EXPECT_EQ(slots_[5], 1u) << "clients are sent on as before";
  set({kThree});
  silent_ = false;
  pass(1s);
  EXPECT_FALSE(serves());
  EXPECT_THAT(host_.connected, IsEmpty());
}

TEST_F(ClientShareTest, ServesUntilOthersHaveItsClientsWhenItStops) {
  const wire::Sharers both{kMe, kThree};
  share(both);
  host_.connected = {client_of(both, kSelf)};
  bool stopped = false;
  const auto stop = [](ClientShare& share, bool& done) -> Task<void> {
    co_await share.stop();
    done = true;
  };
  spawn(stop(*share_, stopped));
  pass(100ms);
  EXPECT_FALSE(stopped);
  EXPECT_TRUE(serves());
  EXPECT_FALSE(remembers_);
  EXPECT_FALSE(asked_.back().fit);
  set({kThree});
  pass(300ms);
  EXPECT_FALSE(stopped);
  EXPECT_TRUE(serves()) << "who has the address may send clients here yet";
  EXPECT_EQ(host_.connected.size(), 1u);
  pass(400ms);
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(serves());
  EXPECT_THAT(host_.connected, IsEmpty());
  EXPECT_FALSE(host_.at_loopback);
}

}  // namespace
}  // namespace slice::proxy
