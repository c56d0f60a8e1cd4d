// Servers that say nothing: those that are there and slow are waited for, those that are not are noticed, and
// their requests go where the tables say by then.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/front/socket.h"
#include "proxy/testing/toy_ensemble.h"
#include "rpc/message.h"

namespace slice::proxy::testing {
namespace {

using namespace std::chrono_literals;
using wire::Role;

// As a process that hangs: its kernel accepts connections and takes bytes for it.
class MuteServer {
 public:
  MuteServer() : socket_(bind_socket(SOCK_STREAM, {0x7f000001, 0}, Sharing::kNone).value()) {}
  ~MuteServer() { ::close(socket_.fd); }
  rpc::Endpoint endpoint() const { return socket_.at; }
  // As a host that is gone: its kernel does not see a packet any more, nor answers one.
  void lose_packets() {
    sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
    sock_fprog program{1, &drop_all};
    ASSERT_EQ(::setsockopt(socket_.fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  }

 private:
  BoundSocket socket_;
};

class SilenceTest : public ::testing::Test {
 protected:
  SilenceTest() : client(ensemble.connect()) {
    while (owner() != first().index) ++fileid;
    ensemble.learn(fileid);
  }
  std::uint32_t owner() const { return ensemble.tables->server_of(Role::kSmallFile, site()).server; }
  SiteId site() const { return ensemble.tables->small_file_site(FileId{fileid}); }
  ToyServer& first() { return ensemble.server(Role::kSmallFile, 0); }
  ToyServer& second() { return ensemble.server(Role::kSmallFile, 1); }
  slice_server& entry(std::uint32_t index) { return ensemble.memory.tables().servers[index + 1]; }
  // The tables name this endpoint as the first server's.
  void put_in_place_of_first(rpc::Endpoint at) {
    store_be(entry(first().index).ipv4, at.address.v4());
    entry(first().index).port = at.port;
  }
  void move_site_to_second() {
    ensemble.memory.tables().sites[slice_site_key(SLICE_CLASS_SMALL_FILE, site().value)].server =
        second().index + 1;
  }
  void commit(std::uint32_t xid) {
    rpc::XdrWriter out;
    auto handle = ensemble.handle(fileid);
    nfs3::encode_arguments(out, nfs3::CommitArgs{handle, 0, 0});
    client->send_record(ensemble.call(Xid{xid}, nfs3::Procedure::kCommit, out.view()).view());
  }
  bool answered(std::size_t replies, Duration limit) {
    return ensemble.run_until([&] { return client->replies.size() >= replies; }, limit);
  }
  void expect_noticed(rpc::Endpoint silent) {
    put_in_place_of_first(silent);
    commit(1);
    ASSERT_FALSE(answered(1, 1s));
    // What is under way stays with a server, whatever the tables say, until that is known to be gone.
    move_site_to_second();
    EXPECT_TRUE(answered(1, 10s)) << "the request stays on the connection to a silent server";
    EXPECT_EQ(second().calls, 1u);
    EXPECT_GE(ensemble.metrics.counter("proxy_requests_sent_again_total").value(), 1u);
  }

  ToyEnsemble ensemble;
  std::unique_ptr<WireClient> client;
  std::uint64_t fileid = 1;
};

TEST_F(SilenceTest, AProcessThatHangsIsNoticed) {
  MuteServer hung;
  expect_noticed(hung.endpoint());
}

TEST_F(SilenceTest, AHostThatIsGoneIsNoticed) {
  MuteServer gone;
  gone.lose_packets();
  expect_noticed(gone.endpoint());
}

TEST_F(SilenceTest, ASlowServerIsWaitedFor) {
  first().hold = true;
  commit(1);
  EXPECT_FALSE(answered(1, 5s));
  EXPECT_EQ(first().calls, 1u) << "sent again to a server that is at work on it";
  first().hold = false;
  first().release();
  EXPECT_TRUE(answered(1, 10s));
  EXPECT_EQ(ensemble.metrics.counter("proxy_backend_reconnects_total").value(), 0u);
}

TEST_F(SilenceTest, AServerThatIsBackIsUsedWithinAFractionOfASecond) {
  first().stop();
  commit(1);
  ASSERT_FALSE(answered(1, 2650ms));  // as long as the pauses between attempts grow
  first().start();
  auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(answered(1, 10s));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 700ms);
}

}  // namespace
}  // namespace slice::proxy::testing
