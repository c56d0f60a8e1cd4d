#include "dirserver/across/directory_parts.h"

#include "dirserver/testing/fixture.h"

namespace slice::dirserver::testing {
namespace {

using namespace std::chrono_literals;
using wire::DirectoryProcedure;
using wire::PeerStatus;

// Another directory server: notes what it is asked, and waits with its answer as long as it is told to.
class FakePeer : public rpc::Program {
 public:
  explicit FakePeer(Loop& loop) : loop_(loop) {}
  std::uint32_t number() const override { return wire::kDirectoryProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override {
    const auto procedure = static_cast<DirectoryProcedure>(call.procedure);
    ++asked[procedure];
    while (waiting) co_await loop_.sleep(10ms);
    wire::LockArgs lock;
    if (procedure == DirectoryProcedure::kLock && decode(call.arguments, lock)) {
      wire::PartNames none;
      for (std::uint32_t site = 0; site < 64; ++site) none.sites.add(SiteId{site});
      const std::string no_names = encode_value(none);
      encode(results, wire::LockResult{.incarnation = 1, .values = {lock.items.size(), no_names}});
    } else {
      encode(results, wire::PeerResult{});
    }
    co_return rpc::Outcome::kReply;
  }

  std::map<DirectoryProcedure, unsigned> asked;
  bool waiting = false;

 private:
  Loop& loop_;
};

EnsembleConfig hashing_names() {
  EnsembleConfig config = service::testing::two_directories();
  config.volume.policy = VolumeConfig::NamePolicy::kNameHashing;
  return config;
}

class LeaseTest : public DirectoryFixture {
 protected:
  static constexpr wire::TransactionName kFirst{SiteId{1}, 7, 1}, kSecond{SiteId{1}, 7, 2};

  LeaseTest() : DirectoryFixture(hashing_names()) {
    serve("dir2", other_);
    loop_.advance(2 * DirectoryParts::kLease);  // those of a process before this one have ended
  }
  // The root directory, whose home dir1 is, as the other server asks for it.
  void take_lease() {
    auto read = peer<wire::CellResult>(
        DirectoryProcedure::kRead, wire::CellReadArgs{name_of(cell_of(handles_.open(root()).value())), true});
    EXPECT_EQ(read.status, PeerStatus::kOk);
  }
  // What the LOCK of a whole directory is answered; nothing as long as it is not.
  std::shared_ptr<std::optional<PeerStatus>> lock(const wire::TransactionName& id) {
    return lock(id, root(), true);
  }
  std::shared_ptr<std::optional<PeerStatus>> lock(const wire::TransactionName& id, const Handle& directory,
                                                  bool exclusive) {
    auto answer = std::make_shared<std::optional<PeerStatus>>();
    const wire::LockArgs args = lock_of(directory, id, exclusive);
    start(service::internal_call<wire::LockResult>(network_, endpoint("dir1"), wire::kDirectoryProgram,
                                                   DirectoryProcedure::kLock, args),
          [answer](const Result<wire::LockResult>& result) {
            if (result) *answer = result->status;
          });
    loop_.advance(20ms);
    return answer;
  }
  // A name in the root directory that dir1 has.
  std::string name_here() {
    auto file = handles_.open(root());
    const Placement placement(config_, tables_);
    for (int i = 0;; ++i) {
      std::string name = "d" + std::to_string(i);
      SiteId site = placement.place(cell_of(*file), name).site;
      if (tables_.get()->owns(self_.index, wire::Role::kDirectory, site)) return name;
    }
  }

  FakePeer other_{loop_};
};

TEST_F(LeaseTest, ALockOfTheDirectoryRevokesThem) {
  EXPECT_EQ(*lock(kFirst), PeerStatus::kOk);
  EXPECT_EQ(other_.asked[DirectoryProcedure::kRevoke], 0u) << "nobody has one";
  give_up(kFirst);
  take_lease();
  EXPECT_EQ(*lock(kSecond), PeerStatus::kOk);
  EXPECT_EQ(other_.asked[DirectoryProcedure::kRevoke], 1u);
}

// The revocation for a change that is given up meanwhile ends late, when another lease has been given out.
TEST_F(LeaseTest, ALateRevocationTakesNoNewerLeaseForRevoked) {
  take_lease();
  other_.waiting = true;
  auto first = lock(kFirst);
  EXPECT_EQ(other_.asked[DirectoryProcedure::kRevoke], 1u);
  EXPECT_FALSE(first->has_value());
  give_up(kFirst);
  loop_.advance(20ms);
  take_lease();
  other_.waiting = false;
  loop_.advance(50ms);
  EXPECT_EQ(*first, PeerStatus::kRefused);
  EXPECT_EQ(*lock(kSecond), PeerStatus::kOk);
  EXPECT_EQ(other_.asked[DirectoryProcedure::kRevoke], 2u);
}

// A lease that the other server takes after it has given its part's lock would outlive that lock, were the
// directory not locked at home by then.
TEST_F(LeaseTest, RmdirLocksTheDirectoryAtHomeBeforeItsParts) {
  const std::string name = name_here();
  Handle directory = mkdir(root(), name).handle;
  EXPECT_EQ(*lock(kFirst, directory, false), PeerStatus::kOk);
  other_.asked.clear();
  Handle parent = root();
  auto removed = send(Procedure::kRmdir, nfs3::DirOpArgs{parent, name});
  loop_.advance(20ms);
  EXPECT_FALSE(removed->ended);
  EXPECT_EQ(other_.asked[DirectoryProcedure::kLock], 0u);
  give_up(kFirst);
  loop_.advance(20ms);
  EXPECT_TRUE(removed->ended);
  EXPECT_EQ(other_.asked[DirectoryProcedure::kLock], 1u);
  EXPECT_EQ(getattr(directory), NfsStatus::kStale);
}

}  // namespace
}  // namespace slice::dirserver::testing
