#include "control/manager/client_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/manual_loop.h"
#include "routing/client_slots.h"

namespace slice::manager {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kFirst = 1, kSecond = 2, kThird = 3;

// A proxy that does as slice-proxyd does, as far as the manager sees it.
struct Proxy {
  std::uint32_t server = 0;
  bool fit = true, holds = false, follows = true, silent = false, heard = false;
  std::uint64_t run = 1;
  std::uint64_t number = 0;
  std::uint64_t prepared = 0;
  wire::Sharers current = {};
  std::vector<wire::AddressPeer> peers = {};
  wire::ShareClientsResult told = {};
};

class ClientSharesTest : public ::testing::Test {
 protected:
  ClientSharesTest() { start(); }
  // Anew, as of a manager that begins to lead.
  void start() { shares_.emplace(loop_, 2s, members_, metrics_); }

  void ask(Proxy& proxy) {
    const auto has = [&](const wire::Sharers& sharers) {
      return std::ranges::any_of(sharers, [&](const auto& each) { return each.server == proxy.server; });
    };
    proxy.told = shares_->ask({.server = proxy.server,
                               .run = proxy.run,
                               .number = ++proxy.number,
                               .hardware = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(proxy.server)},
                               .fit = proxy.fit,
                               .serves = has(proxy.current),
                               .holds = proxy.holds,
                               .prepared = proxy.prepared,
                               .heard = proxy.heard,
                               .follows = proxy.current,
                               .peers = proxy.peers});
    if (!proxy.told.known || !proxy.follows) return;
    proxy.current = proxy.told.current;
    proxy.heard = true;
    const bool prepares = proxy.told.wanted != proxy.told.current && has(proxy.told.wanted);
    proxy.prepared = prepares ? digest(proxy.told.wanted) : 0;
  }
  void pass(Duration time) {
    for (const MonoTime end = loop_.now() + time; loop_.now() < end; loop_.advance(300ms))
      for (Proxy* each : {&one_, &two_, &three_})
        if (!each->silent) ask(*each);
  }
  static std::vector<std::uint32_t> numbers(const wire::Sharers& sharers) {
    std::vector<std::uint32_t> found;
    for (const wire::Sharer& each : sharers) found.push_back(each.server);
    return found;
  }
  std::vector<std::uint32_t> current(const Proxy& proxy) const { return numbers(proxy.told.current); }
  std::uint64_t changes() { return metrics_.counter("manager_client_shares_changed_total").value(); }
  // All three share the clients, and the first has the address.
  void three_share() {
    one_.holds = true;
    pass(6s);
    ASSERT_THAT(current(one_), ElementsAre(kFirst, kSecond, kThird));
  }

  static wire::ServerEntry member(std::uint32_t server, wire::Role role) {
    return {.server = server, .role = role, .endpoint = {}, .name = "s" + std::to_string(server)};
  }
  ManualLoop loop_;
  Metrics metrics_;
  std::vector<wire::ServerEntry> members_{member(0, wire::Role::kDirectory), member(1, wire::Role::kProxy),
                                          member(2, wire::Role::kProxy), member(3, wire::Role::kProxy)};
  std::optional<ClientShares> shares_;
  Proxy one_{.server = kFirst}, two_{.server = kSecond}, three_{.server = kThird};
};

TEST_F(ClientSharesTest, AllThatAreFitShareTheClientsWhenAllAreReadyForIt) {
  one_.holds = true;
  pass(1900ms);
  EXPECT_FALSE(one_.told.known) << "it listens first";
  pass(4s);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kSecond, kThird));
  EXPECT_EQ(one_.told.current, one_.told.wanted);
  EXPECT_EQ(one_.told.current[1].hardware, (std::array<std::uint8_t, 6>{2, 0, 0, 0, 0, 2}));
  EXPECT_EQ(one_.told.patience_ms, 2000u);
}

TEST_F(ClientSharesTest, NothingChangesBeforeAllAreReady) {
  two_.silent = three_.silent = true;
  one_.holds = true;
  pass(6s);
  ASSERT_THAT(current(one_), ElementsAre(kFirst));
  two_.silent = three_.silent = false;
  three_.follows = false;
  pass(10s);
  EXPECT_THAT(current(one_), ElementsAre(kFirst));
  EXPECT_THAT(numbers(one_.told.wanted), ElementsAre(kFirst, kSecond, kThird));
  three_.follows = true;
  pass(1s);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kSecond, kThird));
}

TEST_F(ClientSharesTest, WhoComesIsToBeFitForAWhileFirst) {
  three_.fit = false;
  one_.holds = true;
  pass(6s);
  ASSERT_THAT(current(one_), ElementsAre(kFirst, kSecond));
  for (int i = 0; i < 5; ++i) {
    three_.fit = true;
    pass(1500ms);
    three_.fit = false;
    pass(300ms);
  }
  EXPECT_EQ(changes(), 1u) << "one that comes and goes breaks nobody's connection";
  three_.fit = true;
  pass(3s);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kSecond, kThird));
}

TEST_F(ClientSharesTest, ASilentOneIsOneNoMoreAfterThePatience) {
  three_share();
  two_.silent = true;
  pass(1800ms);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kSecond, kThird));
  pass(1500ms);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kThird));
}

TEST_F(ClientSharesTest, WhoHasTheAddressIsToldWhoseClientsWereLeftAlone) {
  two_.peers = {{0x0a4d0102, 700, 2049}};
  three_share();
  EXPECT_EQ(two_.told.peers_digest, wire::digest(two_.peers));
  two_.peers.clear();
  pass(600ms);
  EXPECT_NE(two_.told.peers_digest, 0u) << "it need not say them each time";
  two_.silent = true;
  pass(4s);
  EXPECT_EQ(one_.told.left, (std::vector<wire::AddressPeer>{{0x0a4d0102, 700, 2049}}));
  EXPECT_THAT(three_.told.left, IsEmpty()) << "one wakes them";
  const std::uint64_t first = one_.told.left_ns;
  pass(12s);
  EXPECT_THAT(one_.told.left, IsEmpty()) << "by now they know";
  two_.silent = false;
  two_.peers = {{0x0a4d0102, 700, 2049}};
  pass(4s);
  two_.silent = true;
  pass(4s);
  EXPECT_NE(one_.told.left_ns, first) << "the same ones are to be woken once more";
}

// It connected in the last moment, and nobody was told of that.
TEST_F(ClientSharesTest, ClientsThatAProxyWasGivenAreWokenThoughItHasNotToldOfThem) {
  three_.silent = true;
  for (std::uint32_t host = 1; host < 40; ++host) two_.peers.push_back({0x0a4d0100 + host, 700, 2049});
  one_.holds = true;
  pass(6s);
  ASSERT_THAT(current(one_), ElementsAre(kFirst, kSecond));
  const std::vector<wire::AddressPeer> all = two_.peers;
  three_.silent = false;
  pass(3s);
  ASSERT_THAT(current(one_), ElementsAre(kFirst, kSecond, kThird));
  const routing::ClientSlots slots(one_.told.current);
  std::vector<wire::AddressPeer> of_third;
  for (const wire::AddressPeer& peer : all)
    if (slots.of(peer.address) == kThird) of_third.push_back(peer);
  ASSERT_GT(of_third.size(), 3u);
  std::erase_if(two_.peers, [&](const auto& peer) { return slots.of(peer.address) != kSecond; });
  pass(600ms);
  three_.silent = true;
  pass(4s);
  ASSERT_THAT(current(one_), ElementsAre(kFirst, kSecond));
  EXPECT_THAT(one_.told.left, ::testing::UnorderedElementsAreArray(of_third));
}

TEST_F(ClientSharesTest, WhoIsNotFitAnyMoreServesUntilTheOthersAreReady) {
  three_share();
  two_.fit = false;
  ask(two_);
  EXPECT_THAT(current(two_), ElementsAre(kFirst, kSecond, kThird));
  EXPECT_THAT(numbers(two_.told.wanted), ElementsAre(kFirst, kThird));
  pass(900ms);
  EXPECT_THAT(current(two_), ElementsAre(kFirst, kThird));
}

TEST_F(ClientSharesTest, AHolderThatCannotSendClientsOnServesAll) {
  three_share();
  one_.fit = false;
  pass(600ms);
  EXPECT_THAT(current(two_), IsEmpty());
  one_.holds = false;
  two_.holds = true;
  pass(1s);
  EXPECT_THAT(current(two_), ElementsAre(kSecond, kThird)) << "the next one can";
}

TEST_F(ClientSharesTest, AManagerThatBeginsToLeadTakesThoseWhoServe) {
  three_share();
  start();
  pass(1900ms);
  EXPECT_FALSE(one_.told.known);
  const std::uint64_t before = changes();
  pass(5s);
  EXPECT_TRUE(one_.told.known);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kSecond, kThird));
  EXPECT_EQ(changes(), before);
}

// It was cut off, and others have its clients since; or it is to come, and they do not know yet.
TEST_F(ClientSharesTest, AManagerThatBeginsToLeadBelievesWhoSendsTheClients) {
  three_share();
  three_.follows = false;
  one_.current = two_.current = {one_.told.current[0], one_.told.current[1]};
  start();
  pass(2400ms);
  ASSERT_TRUE(one_.told.known);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kSecond));
  EXPECT_THAT(current(three_), ElementsAre(kFirst, kSecond));
}

TEST_F(ClientSharesTest, OneThatDiedTogetherWithTheManagerIsLeftOut) {
  three_share();
  start();
  two_.silent = true;
  pass(4s);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kThird));
}

TEST_F(ClientSharesTest, AManagerThatHeardOfNobodyListensAgain) {
  three_share();
  loop_.advance(10s);
  ask(one_);
  EXPECT_FALSE(one_.told.known);
  pass(5s);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kSecond, kThird));
}

TEST_F(ClientSharesTest, OneThatWasStartedAnewKeepsItsClients) {
  three_share();
  const std::uint64_t before = changes();
  two_.run = 2;
  two_.number = 0;
  two_.current.clear();
  two_.heard = false;
  pass(3s);
  EXPECT_THAT(current(two_), ElementsAre(kFirst, kSecond, kThird));
  EXPECT_EQ(changes(), before);
}

TEST_F(ClientSharesTest, AnInterfaceThatWasChangedIsAChange) {
  three_share();
  const std::uint64_t before = changes();
  shares_->ask({.server = kSecond, .run = 1, .number = ++two_.number, .hardware = {9}, .fit = true});
  EXPECT_EQ(changes(), before) << "not before all know";
}

TEST_F(ClientSharesTest, ALateQuestionCountsForNothing) {
  three_share();
  const auto told = shares_->ask({.server = kSecond, .run = 1, .number = 1, .fit = false});
  EXPECT_EQ(told.current, told.wanted);
}

TEST_F(ClientSharesTest, AServerThatIsNoProxyGetsNoClients) {
  one_.holds = true;
  pass(3s);
  const auto told = shares_->ask({.server = 0, .number = 1, .fit = true});
  EXPECT_FALSE(told.known);
  pass(3s);
  EXPECT_THAT(current(one_), ElementsAre(kFirst, kSecond, kThird));
}

}  // namespace
}  // namespace slice::manager
