// Copies of one call.
#include <gtest/gtest.h>

#include "dirserver/testing/two_servers.h"

namespace slice::dirserver {
namespace {

using namespace std::chrono_literals;
using nfs3::Procedure;
using NfsStatus = nfs3::Status;
using testing::Side;

class CopiesTest : public testing::TwoServers {
 protected:
  NfsStatus rmdir(const std::string& name, std::uint32_t xid) {
    return status_of(run(send(*first, Procedure::kRmdir, nfs3::RmdirArgs{root_, name}, xid)));
  }
  // The name of a directory in the root, which is the first's, whose own site is the second's.
  std::string seconds_directory() {
    for (std::uint32_t xid = 1000;; ++xid) {
      std::string name = "d" + std::to_string(xid);
      // By relay where the name is the first's.
      auto response = run(send(*second, Procedure::kMkdir, nfs3::MkdirArgs{.where = {root_, name}}, xid));
      EXPECT_EQ(status_of(response), NfsStatus::kOk);
      rpc::XdrReader in(response->results());
      NfsStatus status{};
      nfs3::CreatedOk made;
      EXPECT_TRUE(nfs3::decode_result(in, status, made));
      const SiteId site = handles_.open(*made.object).value().directory_site;
      if (first->tables.get()->owns(second->self.index, wire::Role::kDirectory, site)) return name;
    }
  }
  void hear_second(bool on) {
    second->network.attach(second->endpoint(), on ? second->dispatcher.get() : nullptr);
  }
  routing::HandleBytes root_ = root();
};

// Upon NFS3ERR_JUKEBOX a client sends a new call. A copy of the old one that comes later, e.g. by another
// proxy, would otherwise be carried out beside it: the client's own RMDIR would be answered NFS3ERR_NOENT.
TEST_F(CopiesTest, OfACallThatWasToldToWaitAreToldToWait) {
  const std::string name = seconds_directory();
  hear_second(false);
  EXPECT_EQ(rmdir(name, 7), NfsStatus::kJukebox);
  hear_second(true);
  EXPECT_EQ(rmdir(name, 7), NfsStatus::kJukebox);
  EXPECT_EQ(rmdir(name, 8), NfsStatus::kOk);
  EXPECT_EQ(rmdir(name, 8), NfsStatus::kOk);
  EXPECT_EQ(rmdir(name, 9), NfsStatus::kNoEnt);
}

TEST_F(CopiesTest, ThatWaitForTheFirstAreToldToWaitAsItIs) {
  const std::string name = seconds_directory();
  hear_second(false);
  std::vector<NfsStatus> answers;
  for (int i = 0; i < 3; ++i) {
    start(send(*first, Procedure::kRmdir, nfs3::RmdirArgs{root_, name}, 7),
          [&](const Result<rpc::Response>& response) { answers.push_back(status_of(response)); });
  }
  loop_.run_until([&] { return !answers.empty(); });
  hear_second(true);
  loop_.advance(15s);
  EXPECT_EQ(answers, std::vector<NfsStatus>(3, NfsStatus::kJukebox));
  EXPECT_EQ(rmdir(name, 8), NfsStatus::kOk);
}

}  // namespace
}  // namespace slice::dirserver
