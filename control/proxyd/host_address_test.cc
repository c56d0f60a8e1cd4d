// The address, ARP and connections by the kernel, in network namespaces of its own; needs root.
#include "control/proxyd/host_addresses.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "control/proxyd/port_sweep.h"
#include "control/xdp/testing/shell.h"
#include "proxy/front/socket.h"
#include "rpc/bound_socket.h"
#include "rpc/epoll_loop.h"

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::run;

// The same of IPv4 and of IPv6: the address, and a client of another network with its gateway.
struct Addresses {
  const char *name, *whole, *client, *gateway, *bits;
  IpAddress address() const { return parse_address(text()).value(); }
  std::string text() const { return std::string(whole).substr(0, std::string_view(whole).find('/')); }
};
constexpr Addresses kFamilies[] = {{"Ipv4", "10.77.9.1/32", "10.77.10.2", "10.77.10.1", "24"},
                                   {"Ipv6", "fd77:9::1/128", "fd77:10::2", "fd77:10::1", "64"}};

class HostAddressTest : public ::testing::TestWithParam<Addresses> {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "root is needed";
    ASSERT_TRUE(
        run("ip link set lo up && ip link add one type veth peer name far && ip link set far up && "
            "ip link set one up && ip addr add 10.77.9.11/24 dev one && ip addr add fd77:9::11/64 dev one "
            "nodad"));
  }
  void SetUp() override {
    auto opened =
        HostAddress::open(loop_, address_, "one", [this](const std::string& by) { claims_.push_back(by); });
    ASSERT_TRUE(opened) << opened.error().message;
    host_ = std::move(*opened);
    host_->look();
  }
  void TearDown() override {
    ASSERT_TRUE(host_->take_off());
    ASSERT_TRUE(host_->take_off_loopback());
  }
  bool ran_until(const std::function<bool()>& done) { return loop_.run_until(done, 3s); }
  void wait(Duration time) {
    loop_.run_until([] { return false; }, time);
  }

  int connect_to(std::uint16_t port) { return connect_to(port, rpc::socket_for(address_, SOCK_STREAM)); }
  // Of IPv6 the kernel makes the way to an address of its own a moment after the address.
  void put() {
    ASSERT_TRUE(host_->put(30));
    EXPECT_TRUE(ran_until([this] { return run("ip route get " + text_ + " | grep -q ^local"); }));
  }
  int connect_to(std::uint16_t port, int fd) {
    const rpc::SocketAddress to({address_, port});
    return ::connect(fd, to.get(), to.length()) == 0 ? fd : -1;
  }
  // Of a client's host, a network namespace that lives as long as it.
  int socket_of_client(std::uint16_t port);
  std::string gateway() const { return std::string(GetParam().gateway) + "/" + GetParam().bits; }
  std::string no_dad() const { return address_.is_v4() ? "" : " nodad"; }

  const IpAddress address_ = GetParam().address();
  const std::string text_ = GetParam().text(), whole_ = GetParam().whole;
  rpc::EpollLoop loop_;
  std::vector<std::string> claims_;
  std::unique_ptr<HostAddress> host_;
};

TEST_P(HostAddressTest, PutsItThereAndTakesItOff) {
  EXPECT_FALSE(host_->look().has);
  EXPECT_EQ(host_->look().unfit, "");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(host_->put(30)) << "again, for longer";
  EXPECT_TRUE(host_->look().has);
  EXPECT_TRUE(run("ip addr show dev one | grep -q 'inet6\\? " + whole_ + " '"));
  EXPECT_FALSE(run("ip addr show dev one tentative | grep -q '" + whole_ + "'"));
  EXPECT_TRUE(host_->take_off());
  EXPECT_FALSE(host_->look().has);
  EXPECT_TRUE(host_->take_off()) << "is off already";
}

TEST_P(HostAddressTest, TheKernelTakesItOffWhereNobodyRenewsIt) {
  ASSERT_TRUE(host_->put(1));
  EXPECT_TRUE(host_->look().has);
  EXPECT_TRUE(ran_until([this] { return !host_->look().has; }));
}

TEST_P(HostAddressTest, AtTheLoopbackInterfaceItIsOursForATime) {
  ASSERT_TRUE(host_->put_at_loopback(1));
  AddressHost::Look seen = host_->look();
  EXPECT_TRUE(seen.at_loopback && !seen.has);
  EXPECT_EQ(seen.unfit, "") << "it may have it at its interface as well";
  EXPECT_NE(seen.interface, 0u);
  ASSERT_TRUE(host_->put(30));
  seen = host_->look();
  EXPECT_TRUE(seen.at_loopback && seen.has);
  EXPECT_TRUE(ran_until([this] { return !host_->look().at_loopback; })) << "the kernel takes it off";
  ASSERT_TRUE(host_->put_at_loopback(30));
  EXPECT_TRUE(host_->take_off_loopback());
  EXPECT_FALSE(host_->look().at_loopback);
  EXPECT_TRUE(host_->look().has);
}

TEST_P(HostAddressTest, SaysWhereItsKernelWouldTellOthersOfTheAddress) {
  ASSERT_TRUE(run("echo 0 > /proc/sys/net/ipv4/conf/one/arp_ignore"));
  if (!address_.is_v4()) {
    EXPECT_EQ(host_->look().unshared, "") << "IPv6 is told of an interface's own addresses alone";
    return;
  }
  EXPECT_THAT(host_->look().unshared, HasSubstr("net.ipv4.conf.one.arp_ignore is 0"));
  ASSERT_TRUE(
      run("echo 1 > /proc/sys/net/ipv4/conf/one/arp_ignore && "
          "echo 2 > /proc/sys/net/ipv4/conf/one/arp_announce"));
  EXPECT_EQ(host_->look().unshared, "");
}

TEST_P(HostAddressTest, SaysWhyItCouldNotServe) {
  ASSERT_TRUE(run("ip addr add " + whole_ + " dev lo"));
  EXPECT_THAT(host_->look().unfit, HasSubstr("has it at lo as well"));
  ASSERT_TRUE(run("ip addr del " + whole_ + " dev lo && ip link set far down"));
  EXPECT_TRUE(ran_until([this] { return host_->look().unfit.find("has no link") != std::string::npos; }));
  ASSERT_TRUE(run("ip link set one down"));
  EXPECT_THAT(host_->look().unfit, HasSubstr("is down"));
  ASSERT_TRUE(run("ip link set one up && ip link set far up"));
  EXPECT_TRUE(ran_until([this] { return host_->look().unfit.empty(); }));
  auto other = HostAddress::open(loop_, address_, "none", [](const std::string&) {});
  ASSERT_TRUE(other);
  EXPECT_THAT((*other)->look().unfit, HasSubstr("no interface none"));
  EXPECT_FALSE((*other)->put(3));
  EXPECT_TRUE((*other)->take_off());
}

// As the kernel of another host hears it: one that has the address from before.
TEST_P(HostAddressTest, ItsAnnouncementIsHeardAndAClaimIsNoticed) {
  ASSERT_TRUE(run("ip link set far address 02:00:00:00:00:09"));
  auto far = HostAddress::open(loop_, address_, "far", [](const std::string&) {});
  ASSERT_TRUE(far);
  (*far)->look();
  host_->announce();
  host_->probe();
  wait(100ms);
  EXPECT_TRUE(claims_.empty()) << "its own";
  (*far)->probe();
  wait(100ms);
  EXPECT_TRUE(claims_.empty()) << "a question is no claim";
  (*far)->announce();
  ASSERT_TRUE(ran_until([this] { return !claims_.empty(); }));
  EXPECT_EQ(claims_[0], "02:00:00:00:00:09");
}

TEST_P(HostAddressTest, WhatIsLeftOfConnectionsGoesWhateverItsState) {
  auto listener = bind_socket(SOCK_STREAM, {address_, 0}, Sharing::kNone);
  ASSERT_TRUE(listener) << "before the address is there";
  put();
  int established = connect_to(listener->at.port), ended = connect_to(listener->at.port);
  ASSERT_TRUE(established >= 0 && ended >= 0);
  int first = ::accept(listener->fd, nullptr, nullptr), second = ::accept(listener->fd, nullptr, nullptr);
  ASSERT_TRUE(first >= 0 && second >= 0);
  ::close(second);  // who closes first has the TIME-WAIT
  ::close(ended);
  const std::string left = "ss -Htan src '[" + text_ + "]' | grep -v LISTEN | grep -q .";
  ASSERT_TRUE(run(left) && run("ss -Htan | grep -q TIME-WAIT"));
  host_->drop_connections({});
  EXPECT_FALSE(host_->lacks_destroy());
  EXPECT_FALSE(run(left)) << "and the listener is there";
  int again = connect_to(listener->at.port);
  EXPECT_GE(again, 0);
  host_->drop_connections([this](const wire::AddressPeer& peer) { return peer.address == address_; });
  EXPECT_TRUE(run("ss -Htan src '[" + text_ + "]' | grep -q ESTAB")) << "what is to be kept stays";
  for (int fd : {established, first, again, listener->fd}) ::close(fd);
}

int HostAddressTest::socket_of_client(std::uint16_t port) {
  const Addresses& own = GetParam();
  int fd = -1;
  std::thread([&] {
    const std::string to_it =
        "ip link add near type veth peer name client netns " + std::to_string(::gettid());
    if (::unshare(CLONE_NEWNET) != 0) return;
    if (!run("nsenter -t " + std::to_string(::getpid()) + " -n " + to_it) ||
        !run("ip addr add " + std::string(own.client) + "/" + own.bits + " dev client" + no_dad() +
             " && ip link set client up && " + "ip route add default via " + own.gateway))
      return;
    fd = rpc::socket_for(address_, SOCK_STREAM);
    const rpc::SocketAddress from({parse_address(own.client).value(), port});
    rpc::bind_freely(fd);
    if (::bind(fd, from.get(), from.length()) != 0) ::close(std::exchange(fd, -1));
  }).join();
  return run("ip addr add " + gateway() + " dev near" + no_dad() + " && ip link set near up") ? fd : -1;
}

bool is_over(int connection, Duration patience) {
  pollfd one{connection, POLLIN, 0};
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  return ::poll(&one, 1, static_cast<int>(wait)) > 0 && (one.revents & (POLLERR | POLLHUP)) != 0;
}

// Its call was acknowledged by a host that is gone, from a port that nobody was told of.
TEST_P(HostAddressTest, AClientThatWaitsOnAnUnknownPortIsWokenAndReset) {
  auto listener = bind_socket(SOCK_STREAM, {address_, 0}, Sharing::kNone);
  ASSERT_TRUE(listener);
  put();
  const int client = connect_to(listener->at.port, socket_of_client(900));
  ASSERT_GE(client, 0);
  ASSERT_EQ(::send(client, "call", 4, 0), 4);
  ASSERT_TRUE(ran_until([client] {
    int unacknowledged = -1;
    return ::ioctl(client, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0;
  }));
  ASSERT_TRUE(host_->take_off());
  // As where the host is gone: of IPv6 the kernel would still reset it.
  ASSERT_TRUE(run("ip link set near down"));
  host_->drop_connections({});
  ASSERT_TRUE(run("ip link set near up && ip addr replace " + gateway() + " dev near" + no_dad()));
  put();
  const IpAddress from = parse_address(GetParam().client).value();
  host_->wake({{from, 800, listener->at.port}});
  EXPECT_FALSE(is_over(client, 300ms)) << "it has nothing to say by itself";
  PortSweep sweep({{from, 800, listener->at.port}});
  for (auto some = sweep.next(100); !some.empty(); some = sweep.next(100)) host_->wake(some);
  EXPECT_TRUE(is_over(client, 3s));
  int error = 0;
  socklen_t size = sizeof error;
  EXPECT_EQ(::getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &size), 0);
  EXPECT_EQ(error, ECONNRESET);
  ::close(client);
  ::close(listener->fd);
}

INSTANTIATE_TEST_SUITE_P(Families, HostAddressTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& of) { return std::string(of.param.name); });

// One host has both addresses or neither.
class HostAddressesTest : public HostAddressTest {};

TEST_P(HostAddressesTest, AreThereTogether) {
  auto opened = HostAddresses::open(loop_, {kFamilies[0].address(), kFamilies[1].address()}, "one",
                                    [](const std::string&) {});
  ASSERT_TRUE(opened) << opened.error().message;
  HostAddresses& both = **opened;
  EXPECT_FALSE(both.look().has);
  ASSERT_TRUE(host_->put(30));
  EXPECT_FALSE(both.look().has) << "one is not both";
  ASSERT_TRUE(both.put(30));
  EXPECT_TRUE(both.look().has);
  for (const Addresses& each : kFamilies)
    EXPECT_TRUE(ran_until([&each] { return run("ip route get " + each.text() + " | grep -q ^local"); }));
  std::vector<int> open;
  for (const Addresses& each : kFamilies) {
    auto listener = bind_socket(SOCK_STREAM, {each.address(), 0}, Sharing::kNone);
    ASSERT_TRUE(listener);
    const int fd = rpc::socket_for(each.address(), SOCK_STREAM);
    const rpc::SocketAddress to(listener->at);
    ASSERT_EQ(::connect(fd, to.get(), to.length()), 0);
    open.insert(open.end(), {fd, listener->fd});
  }
  EXPECT_EQ(both.peers().size(), 4u) << "both ends are here";
  both.drop_connections({});
  EXPECT_TRUE(both.peers().empty());
  for (const int fd : open) ::close(fd);
  ASSERT_TRUE(host_->take_off());
  EXPECT_FALSE(both.look().has);
  ASSERT_TRUE(both.take_off());
  ASSERT_TRUE(run("ip addr add fd77:9::1/128 dev lo"));
  EXPECT_THAT(both.look().unfit, HasSubstr("has it at lo as well")) << "what is wrong with either is wrong";
  ASSERT_TRUE(run("ip addr del fd77:9::1/128 dev lo"));
}

INSTANTIATE_TEST_SUITE_P(Families, HostAddressesTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace slice::proxy
