// libnfs's client against our rpc::Server: MOUNT's NULL and MNT over TCP and UDP.
#include <gtest/gtest.h>
#include <nfsc/libnfs-zdr.h>
#include <nfsc/libnfs.h>
// After those, which they need.
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw.h>
#include <poll.h>

#include <memory>
#include <string>

#include "rpc/server.h"
#include "wire/mount3.h"

// Exported by libnfs, but in no header that it installs.
extern "C" {
rpc_context* rpc_init_udp_context(void);
int rpc_bind_udp(rpc_context* rpc, char* address, int port);
int rpc_set_udp_destination(rpc_context* rpc, char* address, int port, int is_broadcast);
}

namespace slice {
namespace {

using namespace std::chrono_literals;

class MountProgram : public rpc::Program {
 public:
  std::uint32_t number() const override { return mount3::kProgram; }
  std::uint32_t version() const override { return mount3::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    if (call.procedure != static_cast<std::uint32_t>(mount3::Procedure::kMnt))
      co_return rpc::Outcome::kNoProcedure;
    std::string_view path;
    if (!mount3::decode_path(call.arguments, path)) co_return rpc::Outcome::kGarbage;
    last_credential = call.credential;
    if (path == "/export") {
      encode(results, mount3::MntResult{mount3::Status::kOk, as_bytes("handle"), {1}});
    } else {
      encode(results, mount3::MntResult{.status = mount3::Status::kNoEnt});
    }
    co_return rpc::Outcome::kReply;
  }
  rpc::AuthSys last_credential;
};

struct Answer {
  bool came = false;
  int status = -1;
  int mount_status = -1;
  std::string handle;
};

void take(rpc_context*, int status, void*, void* answer) {
  static_cast<Answer*>(answer)->came = true;
  static_cast<Answer*>(answer)->status = status;
}
void take_mount(rpc_context*, int status, void* data, void* out) {
  auto& answer = *static_cast<Answer*>(out);
  answer.came = true;
  answer.status = status;
  if (status != RPC_STATUS_SUCCESS) return;
  const auto& result = *static_cast<mountres3*>(data);
  answer.mount_status = result.fhs_status;
  if (result.fhs_status != MNT3_OK) return;
  const auto& fh = result.mountres3_u.mountinfo.fhandle;
  answer.handle.assign(fh.fhandle3_val, fh.fhandle3_len);
}

class LibnfsClientTest : public ::testing::Test {
 protected:
  LibnfsClientTest() {
    dispatcher_.add(program_);
    auto bound = server_.listen({0x7f000001, 0});
    EXPECT_TRUE(bound) << bound.error().message;
    at_ = bound.value_or(rpc::Endpoint{});
  }

  // Serves both sides until the answer came.
  void wait(rpc_context* client, const Answer& answer) {
    MonoTime end = loop_.now() + 5s;
    while (!answer.came && loop_.now() < end) {
      pollfd fd{rpc_get_fd(client), static_cast<short>(rpc_which_events(client)), 0};
      ASSERT_GE(::poll(&fd, 1, 0), 0);
      if (fd.revents != 0) {
        ASSERT_EQ(rpc_service(client, fd.revents), 0) << rpc_get_error(client);
      }
      loop_.run_until([] { return false; }, 1ms);
    }
    ASSERT_TRUE(answer.came) << "no answer to libnfs";
  }
  void null_and_mount(rpc_context* client) {
    Answer null;
    ASSERT_EQ(rpc_mount3_null_async(client, take, &null), 0) << rpc_get_error(client);
    wait(client, null);
    EXPECT_EQ(null.status, RPC_STATUS_SUCCESS);
    Answer mount;
    std::string path = "/export";
    ASSERT_EQ(rpc_mount3_mnt_async(client, take_mount, path.data(), &mount), 0) << rpc_get_error(client);
    wait(client, mount);
    EXPECT_EQ(mount.mount_status, MNT3_OK);
    EXPECT_EQ(mount.handle, "handle");
    Answer refused;
    path = "/elsewhere";
    ASSERT_EQ(rpc_mount3_mnt_async(client, take_mount, path.data(), &refused), 0);
    wait(client, refused);
    EXPECT_EQ(refused.mount_status, MNT3ERR_NOENT);
  }

  Metrics metrics_;
  rpc::EpollLoop loop_;
  MountProgram program_;
  rpc::Dispatcher dispatcher_{metrics_};
  rpc::Server server_{loop_, dispatcher_, metrics_};
  rpc::Endpoint at_;
};

TEST_F(LibnfsClientTest, Tcp) {
  std::unique_ptr<rpc_context, void (*)(rpc_context*)> client(rpc_init_context(), rpc_destroy_context);
  Answer connected;
  ASSERT_EQ(rpc_connect_port_async(client.get(), "127.0.0.1", at_.port, mount3::kProgram, mount3::kVersion,
                                   take, &connected),
            0);
  wait(client.get(), connected);
  ASSERT_EQ(connected.status, RPC_STATUS_SUCCESS);
  null_and_mount(client.get());
}

TEST_F(LibnfsClientTest, Udp) {
  std::unique_ptr<rpc_context, void (*)(rpc_context*)> client(rpc_init_udp_context(), rpc_destroy_context);
  std::string any = "127.0.0.1", to = "127.0.0.1";
  ASSERT_EQ(rpc_bind_udp(client.get(), any.data(), 0), 0) << rpc_get_error(client.get());
  ASSERT_EQ(rpc_set_udp_destination(client.get(), to.data(), at_.port, 0), 0);
  null_and_mount(client.get());
}

}  // namespace
}  // namespace slice
