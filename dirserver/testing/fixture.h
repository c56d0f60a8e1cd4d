// DirectoryFixture: a whole directory server on simulated time and a store in memory, with stand-ins for the
// small-file server and the coordinator, and a client that speaks NFSv3 through the RPC codec. crash() and
// restart() are kill -9 and a new process on what was durable.
#ifndef SLICE_DIRSERVER_TESTING_FIXTURE_H
#define SLICE_DIRSERVER_TESTING_FIXTURE_H

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dirserver/server.h"
#include "rpc/message.h"
#include "service/internal_call.h"
#include "service/testing/service_fixture.h"
#include "storage/memory_store.h"
#include "wire/coordinator.h"
#include "wire/directory.h"
#include "wire/nfs3_readdir.h"
#include "wire/object.h"

namespace slice::dirserver::testing {

using Handle = routing::HandleBytes;
using nfs3::Procedure;
using NfsStatus = nfs3::Status;

// Who holds a file's bytes: notes what it is asked, and fails as long as it is told to.
class FakeDataServer : public rpc::Program {
 public:
  FakeDataServer(Loop& loop, std::uint32_t program) : loop_(loop), program_(program) {}
  std::uint32_t number() const override { return program_; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

  struct Asked {
    bool remove = false;
    std::uint64_t file = 0, size = 0;
    Epoch epoch;
    auto operator<=>(const Asked&) const = default;
  };
  std::vector<Asked> asked;  // and answered kOk
  unsigned refused = 0;
  NfsStatus answer = NfsStatus::kOk;
  wire::Also also;  // of the object program
  Duration takes{0};

 private:
  Loop& loop_;
  std::uint32_t program_;
};

struct Credential {
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;
};

struct Made {
  NfsStatus status = NfsStatus::kOk;
  Handle handle{};
  nfs3::Attributes attributes;
  nfs3::WccData directory;
};
struct Listed {
  std::string name;
  std::uint64_t cookie = 0;
  FileId fileid;
  nfs3::PostOpAttributes attributes;
  std::optional<Handle> handle;
};
struct Page {
  NfsStatus status = NfsStatus::kOk;
  bool eof = false;
  nfs3::CookieVerifier verifier{};
  std::vector<Listed> entries;
  std::size_t bytes = 0;  // of the results, status word included
};

EnsembleConfig test_config();

class DirectoryFixture : public service::testing::ServiceFixture {
 protected:
  explicit DirectoryFixture(EnsembleConfig config = test_config());
  ~DirectoryFixture() override;

  void crash();
  void restart();  // crash() first
  // The server is told that `settings_` have become others.
  void follow_settings() { server_->settings_changed(); }
  storage::MemoryStore& store() { return *store_; }
  void corrupt(const std::string& key) { medium_.corrupt(key); }

  // ---- a call and its reply ----
  struct Pending {
    bool ended = false;
    std::optional<Buffer> reply;  // nothing: dropped
    std::optional<std::string> results() const;
  };
  // Sends a call and does not wait. Every call has a new xid unless one is given.
  template <class Args>
  std::shared_ptr<Pending> send(Procedure procedure, const Args& args, Credential who = {},
                                std::optional<std::uint32_t> xid = {}, rpc::Endpoint from = kClient) {
    rpc::XdrWriter out;
    nfs3::encode_arguments(out, args);
    return send_bytes(procedure, out.take(), std::move(who), xid.value_or(++next_xid_), from);
  }
  std::shared_ptr<Pending> send_bytes(Procedure procedure, Buffer arguments, Credential who,
                                      std::uint32_t xid, rpc::Endpoint from);
  std::shared_ptr<Pending> send_record(Buffer record, rpc::Endpoint from = kClient);
  // Waits for its end; the results, which are kept. Fails the test where there are none.
  ByteView wait(const std::shared_ptr<Pending>& pending);
  template <class Ok, class Args>
  NfsStatus call(Procedure procedure, const Args& args, Ok& ok, Credential who = {}) {
    rpc::XdrReader in(wait(send(procedure, args, std::move(who))));
    NfsStatus status = NfsStatus::kServerFault;
    EXPECT_TRUE(nfs3::decode_result(in, status, ok))
        << nfs3::procedure_name(static_cast<std::uint32_t>(procedure));
    return status;
  }

  // ---- the procedures, shortly ----
  Handle root() const { return handles_.mint(routing::root_handle(config_.volume)); }
  nfs3::Attributes attributes(const Handle& handle);  // GETATTR, which must succeed
  NfsStatus getattr(const Handle& handle);
  Made lookup(const Handle& directory, std::string_view name, Credential who = {});
  Made create(const Handle& directory, std::string_view name, Credential who = {}, std::uint32_t mode = 0644,
              nfs3::CreateMode how = nfs3::CreateMode::kGuarded, std::optional<std::uint64_t> size = {});
  Made create_exclusive(const Handle& directory, std::string_view name, std::uint64_t verifier);
  Made mkdir(const Handle& directory, std::string_view name, Credential who = {}, std::uint32_t mode = 0755);
  Made symlink(const Handle& directory, std::string_view name, std::string_view target, Credential who = {});
  Made mknod(const Handle& directory, std::string_view name, nfs3::FileType type, Credential who = {});
  NfsStatus remove(const Handle& directory, std::string_view name, Credential who = {},
                   nfs3::WccData* wcc = {});
  NfsStatus rmdir(const Handle& directory, std::string_view name, Credential who = {});
  NfsStatus rename(const Handle& from, std::string_view name, const Handle& to, std::string_view new_name,
                   Credential who = {}, nfs3::RenameResult* result = {});
  NfsStatus link(const Handle& file, const Handle& directory, std::string_view name, Credential who = {});
  NfsStatus setattr(const Handle& object, const nfs3::SetAttributes& set, Credential who = {},
                    std::optional<nfs3::Time> guard = {}, nfs3::WccData* wcc = {});
  NfsStatus truncate(const Handle& file, std::uint64_t size, Credential who = {});
  nfs3::GetaclOk getacl(const Handle& object, std::uint32_t mask = nfs3::kAclAll, Credential who = {});
  NfsStatus setacl(const nfs3::SetaclArgs& args, Credential who = {});
  Page readdir(const Handle& directory, std::uint64_t cookie, const nfs3::CookieVerifier& verifier,
               std::uint32_t count = 4096, Credential who = {});
  Page readdirplus(const Handle& directory, std::uint64_t cookie, const nfs3::CookieVerifier& verifier,
                   std::uint32_t dircount, std::uint32_t maxcount, Credential who = {});
  // All names but "." and "..", in the server's order, over as many calls as `count` bytes each make.
  std::vector<std::string> names(const Handle& directory, std::uint32_t count = 4096);

  // ---- the authority program, as a data server calls it ----
  wire::FetchResult fetch(const Handle& file, bool with_striped = false);
  wire::FetchResult merge(const Handle& file, std::uint64_t size, std::uint32_t epoch,
                          std::optional<nfs3::Time> mtime = {}, std::optional<nfs3::Time> atime = {});
  wire::MergeResult merge(std::vector<wire::FileMerge> files, std::uint32_t teller = 0);

  // ---- the program of directory servers among themselves, as another of them calls it ----
  template <class R, class Args>
  R peer(wire::DirectoryProcedure procedure, const Args& args) {
    auto result =
        run(service::internal_call<R>(network_, endpoint("dir1"), wire::kDirectoryProgram, procedure, args));
    EXPECT_TRUE(result.has_value());
    return result.value_or(R{});
  }
  // A lock of the whole object, by an owner that all others are older than: they wait for it.
  wire::LockArgs lock_of(const Handle& object, const wire::TransactionName& owner,
                         bool exclusive = true) const;
  void give_up(const wire::TransactionName& owner);

  static constexpr rpc::Endpoint kClient{0x0a4d0102, 700};
  bool datagrams_ = false;  // clients' calls come over UDP

  FakeDataServer small_{loop_, wire::kObjectProgram};
  FakeDataServer coordinator_{loop_, wire::kCoordinatorProgram};

 private:
  template <class Args>
  Made make(Procedure procedure, const Args& args, Credential who);
  Page page(ByteView results, bool plus);
  static Task<void> deliver(rpc::Dispatcher& dispatcher, Buffer record, rpc::Endpoint from, bool datagram,
                            std::shared_ptr<Pending> pending, std::shared_ptr<bool> alive);

  storage::MemoryMedium medium_;
  storage::MemoryStore* store_ = nullptr;  // the server's
  std::unique_ptr<DirectoryServer> server_;
  std::unique_ptr<rpc::Dispatcher> front_;  // what clients reach
  std::shared_ptr<bool> alive_;             // false: replies of the server that crashed are lost
  std::vector<std::unique_ptr<DirectoryServer>> crashed_;
  std::vector<std::unique_ptr<rpc::Dispatcher>> closed_;
  std::uint32_t next_xid_ = 1000;
  std::deque<Buffer> replies_;
};

}  // namespace slice::dirserver::testing

#endif  // SLICE_DIRSERVER_TESTING_FIXTURE_H
