#include "dirserver/testing/fixture.h"

#include "wire/authority.h"
#include "wire/coordinator.h"
#include "wire/object.h"

namespace slice::dirserver::testing {

Task<rpc::Outcome> FakeDataServer::handle(const rpc::Call& call, rpc::XdrWriter& results) {
  Asked what;
  if (program_ == wire::kObjectProgram) {
    wire::ObjectTruncateArgs truncate;
    wire::ObjectRemoveArgs remove;
    what.remove = call.procedure == static_cast<std::uint32_t>(wire::ObjectProcedure::kRemove);
    bool good = what.remove ? decode(call.arguments, remove) : decode(call.arguments, truncate);
    if (!good) co_return rpc::Outcome::kGarbage;
    what.file = what.remove ? remove.object.fileid.value : truncate.object.fileid.value;
    what.size = truncate.size;
    what.epoch = truncate.epoch;
  } else {
    wire::CoordinatorTruncateArgs truncate;
    wire::CoordinatorRemoveArgs remove;
    what.remove = call.procedure == static_cast<std::uint32_t>(wire::CoordinatorProcedure::kRemove);
    bool good = what.remove ? decode(call.arguments, remove) : decode(call.arguments, truncate);
    if (!good) co_return rpc::Outcome::kGarbage;
    ByteView handle = what.remove ? remove.handle : truncate.handle;
    what.file = load_be<std::uint64_t>(handle.data() + 8);
    what.size = truncate.size;
    what.epoch = truncate.epoch;
  }
  if (takes > Duration{0}) co_await loop_.sleep(takes);
  if (answer == NfsStatus::kOk) {
    asked.push_back(what);
  } else {
    ++refused;
  }
  if (program_ == wire::kObjectProgram) {
    encode(results, wire::ObjectStatusResult{answer, also});
  } else {
    encode(results, wire::CoordinatorResult{answer});
  }
  co_return rpc::Outcome::kReply;
}

EnsembleConfig test_config() {
  EnsembleConfig config = service::testing::sample_config();
  config.volume.mkdir_probability = 0.5;  // so that directories lie on many sites
  return config;
}

DirectoryFixture::DirectoryFixture(EnsembleConfig config) : ServiceFixture("dir1", std::move(config)) {
  serve("small1", small_);
  serve("coord1", coordinator_);
  restart();
}

DirectoryFixture::~DirectoryFixture() {
  crash();
  loop_.advance(std::chrono::minutes(10));  // what is under way finds out and ends
}

void DirectoryFixture::crash() {
  if (!server_) return;
  *alive_ = false;
  silence("dir1");
  store_->crash();
  start_void(server_->stop(), [] {});
  crashed_.push_back(std::move(server_));
  closed_.push_back(std::move(front_));
}

void DirectoryFixture::restart() {
  crash();
  server_ = std::make_unique<DirectoryServer>(
      context_, [this](service::ServiceContext&) -> Result<std::unique_ptr<storage::KvStore>> {
        auto store = std::make_unique<storage::MemoryStore>(loop_, medium_);
        store_ = store.get();
        return std::unique_ptr<storage::KvStore>(std::move(store));
      });
  slice::Status started = run(server_->start());
  ASSERT_TRUE(started.has_value()) << started.error().message;
  front_ = std::make_unique<rpc::Dispatcher>(metrics_);
  alive_ = std::make_shared<bool>(true);
  for (rpc::Program* program : server_->programs()) {
    front_->add(*program);
    serve("dir1", *program);
  }
}

std::optional<std::string> DirectoryFixture::Pending::results() const {
  if (!reply) return std::nullopt;
  auto header = rpc::decode_reply(reply->view());
  if (!header || !header->accepted || header->accept_stat != rpc::AcceptStat::kSuccess) return std::nullopt;
  return std::string(as_text(header->results));
}

Task<void> DirectoryFixture::deliver(rpc::Dispatcher& dispatcher, Buffer record, rpc::Endpoint from,
                                     bool datagram, std::shared_ptr<Pending> pending,
                                     std::shared_ptr<bool> alive) {
  auto reply = co_await dispatcher.dispatch(std::move(record), from, 0, {.datagram = datagram});
  if (!*alive) co_return;
  pending->reply = std::move(reply);
  pending->ended = true;
}

std::shared_ptr<DirectoryFixture::Pending> DirectoryFixture::send_bytes(Procedure procedure, Buffer arguments,
                                                                        Credential who, std::uint32_t xid,
                                                                        rpc::Endpoint from) {
  rpc::XdrWriter credential;
  rpc::encode_auth_sys(credential,
                       {.machine_name = "client", .uid = who.uid, .gid = who.gid, .groups = who.groups});
  rpc::XdrWriter record;
  const nfs3::WireProcedure called = nfs3::on_the_wire(static_cast<std::uint32_t>(procedure));
  rpc::encode_call(record, {.xid = Xid{xid},
                            .program = called.program,
                            .version = nfs3::kVersion,
                            .procedure = called.number,
                            .credential_flavor = rpc::kAuthSys,
                            .credential = credential.view().subspan(8),
                            .verifier = {},
                            .arguments = arguments.view()});
  return send_record(record.take(), from);
}

std::shared_ptr<DirectoryFixture::Pending> DirectoryFixture::send_record(Buffer record, rpc::Endpoint from) {
  auto pending = std::make_shared<Pending>();
  spawn(deliver(*front_, std::move(record), from, datagrams_, pending, alive_));
  return pending;
}

ByteView DirectoryFixture::wait(const std::shared_ptr<Pending>& pending) {
  EXPECT_TRUE(loop_.run_until([&] { return pending->ended; })) << "no answer";
  auto results = pending->results();
  EXPECT_TRUE(results.has_value()) << "not a success of RPC";
  replies_.emplace_back(as_bytes(results.value_or("")));
  return replies_.back().view();
}

nfs3::Attributes DirectoryFixture::attributes(const Handle& handle) {
  nfs3::GetattrOk ok;
  EXPECT_EQ(call(Procedure::kGetattr, nfs3::HandleView(handle), ok), NfsStatus::kOk);
  return ok.attributes;
}

NfsStatus DirectoryFixture::getattr(const Handle& handle) {
  nfs3::GetattrOk ok;
  return call(Procedure::kGetattr, nfs3::HandleView(handle), ok);
}

Made DirectoryFixture::lookup(const Handle& directory, std::string_view name, Credential who) {
  nfs3::LookupOk ok;
  Made made{.status = call(Procedure::kLookup, nfs3::DirOpArgs{directory, name}, ok, std::move(who))};
  if (made.status == NfsStatus::kOk) {
    std::copy(ok.object.begin(), ok.object.end(), made.handle.begin());
    made.attributes = *ok.attributes;
  }
  return made;
}

template <class Args>
Made DirectoryFixture::make(Procedure procedure, const Args& args, Credential who) {
  rpc::XdrReader in(wait(send(procedure, args, std::move(who))));
  Made made;
  nfs3::CreatedOk ok;
  EXPECT_TRUE(nfs3::decode_result(in, made.status, ok));
  made.directory = ok.directory;
  if (made.status == NfsStatus::kOk) {
    EXPECT_TRUE(ok.object && ok.attributes);
    std::copy(ok.object->begin(), ok.object->end(), made.handle.begin());
    made.attributes = *ok.attributes;
  }
  return made;
}

Made DirectoryFixture::create(const Handle& directory, std::string_view name, Credential who,
                              std::uint32_t mode, nfs3::CreateMode how, std::optional<std::uint64_t> size) {
  nfs3::CreateArgs args{.where = {directory, name}, .mode = how};
  args.attributes.mode = mode;
  args.attributes.size = size;
  return make(Procedure::kCreate, args, std::move(who));
}

Made DirectoryFixture::create_exclusive(const Handle& directory, std::string_view name,
                                        std::uint64_t verifier) {
  nfs3::CreateArgs args{.where = {directory, name}, .mode = nfs3::CreateMode::kExclusive};
  store_be(args.verifier.data(), verifier);
  return make(Procedure::kCreate, args, {});
}

Made DirectoryFixture::mkdir(const Handle& directory, std::string_view name, Credential who,
                             std::uint32_t mode) {
  nfs3::MkdirArgs args{.where = {directory, name}};
  args.attributes.mode = mode;
  return make(Procedure::kMkdir, args, std::move(who));
}

Made DirectoryFixture::symlink(const Handle& directory, std::string_view name, std::string_view target,
                               Credential who) {
  return make(Procedure::kSymlink, nfs3::SymlinkArgs{.where = {directory, name}, .target = target},
              std::move(who));
}

Made DirectoryFixture::mknod(const Handle& directory, std::string_view name, nfs3::FileType type,
                             Credential who) {
  nfs3::MknodArgs args{.where = {directory, name}, .type = type};
  bool device = type == nfs3::FileType::kBlock || type == nfs3::FileType::kCharacter;
  if (device) args.rdev_major = 7;
  if (device) args.rdev_minor = 8;
  return make(Procedure::kMknod, args, std::move(who));
}

NfsStatus DirectoryFixture::remove(const Handle& directory, std::string_view name, Credential who,
                                   nfs3::WccData* wcc) {
  nfs3::WccData unused;
  return call(Procedure::kRemove, nfs3::DirOpArgs{directory, name}, wcc != nullptr ? *wcc : unused,
              std::move(who));
}

NfsStatus DirectoryFixture::rmdir(const Handle& directory, std::string_view name, Credential who) {
  nfs3::WccData wcc;
  return call(Procedure::kRmdir, nfs3::DirOpArgs{directory, name}, wcc, std::move(who));
}

NfsStatus DirectoryFixture::rename(const Handle& from, std::string_view name, const Handle& to,
                                   std::string_view new_name, Credential who, nfs3::RenameResult* result) {
  nfs3::RenameResult unused;
  return call(Procedure::kRename, nfs3::RenameArgs{.from = {from, name}, .to = {to, new_name}},
              result != nullptr ? *result : unused, std::move(who));
}

NfsStatus DirectoryFixture::link(const Handle& file, const Handle& directory, std::string_view name,
                                 Credential who) {
  nfs3::LinkResult result;
  return call(Procedure::kLink, nfs3::LinkArgs{.file = file, .link = {directory, name}}, result,
              std::move(who));
}

NfsStatus DirectoryFixture::setattr(const Handle& object, const nfs3::SetAttributes& set, Credential who,
                                    std::optional<nfs3::Time> guard, nfs3::WccData* wcc) {
  nfs3::WccData unused;
  return call(Procedure::kSetattr, nfs3::SetattrArgs{.object = object, .attributes = set, .guard = guard},
              wcc != nullptr ? *wcc : unused, std::move(who));
}

NfsStatus DirectoryFixture::truncate(const Handle& file, std::uint64_t size, Credential who) {
  nfs3::SetAttributes set;
  set.size = size;
  return setattr(file, set, std::move(who));
}

Page DirectoryFixture::page(ByteView results, bool plus) {
  Page page;
  page.bytes = results.size();
  rpc::XdrReader in(results);
  nfs3::EntryListReader list(in, plus);
  page.status = list.status();
  page.verifier = list.verifier();
  nfs3::DirectoryEntry entry;
  while (page.status == NfsStatus::kOk && list.next(entry)) {
    Listed listed{std::string(entry.name), entry.cookie, entry.fileid, entry.attributes, std::nullopt};
    if (entry.handle) {
      listed.handle.emplace();
      std::copy(entry.handle->begin(), entry.handle->end(), listed.handle->begin());
    }
    page.entries.push_back(std::move(listed));
  }
  page.eof = list.eof();
  EXPECT_TRUE(list.complete());
  return page;
}

Page DirectoryFixture::readdir(const Handle& directory, std::uint64_t cookie,
                               const nfs3::CookieVerifier& verifier, std::uint32_t count, Credential who) {
  return page(
      wait(send(Procedure::kReaddir, nfs3::ReaddirArgs{directory, cookie, verifier, count}, std::move(who))),
      false);
}

Page DirectoryFixture::readdirplus(const Handle& directory, std::uint64_t cookie,
                                   const nfs3::CookieVerifier& verifier, std::uint32_t dircount,
                                   std::uint32_t maxcount, Credential who) {
  return page(
      wait(send(Procedure::kReaddirplus,
                nfs3::ReaddirplusArgs{directory, cookie, verifier, dircount, maxcount}, std::move(who))),
      true);
}

std::vector<std::string> DirectoryFixture::names(const Handle& directory, std::uint32_t count) {
  std::vector<std::string> all;
  std::uint64_t cookie = 0;
  nfs3::CookieVerifier verifier{};
  for (;;) {
    Page page = readdir(directory, cookie, verifier, count);
    EXPECT_EQ(page.status, NfsStatus::kOk);
    if (page.status != NfsStatus::kOk) return all;
    for (Listed& entry : page.entries) {
      cookie = entry.cookie;
      if (entry.name != "." && entry.name != "..") all.push_back(std::move(entry.name));
    }
    verifier = page.verifier;
    if (page.eof) return all;
  }
}

nfs3::GetaclOk DirectoryFixture::getacl(const Handle& object, std::uint32_t mask, Credential who) {
  nfs3::GetaclOk ok;
  EXPECT_EQ(call(Procedure::kGetacl, nfs3::GetaclArgs{object, mask}, ok, std::move(who)), NfsStatus::kOk);
  EXPECT_TRUE(ok.attributes);
  return ok;
}

NfsStatus DirectoryFixture::setacl(const nfs3::SetaclArgs& args, Credential who) {
  nfs3::SetaclOk ok;
  NfsStatus status = call(Procedure::kSetacl, args, ok, std::move(who));
  if (status == NfsStatus::kOk) EXPECT_TRUE(ok.attributes);
  return status;
}

wire::FetchResult DirectoryFixture::fetch(const Handle& file, bool with_striped) {
  auto result = run(service::internal_call<wire::FetchResult>(
      network_, endpoint("dir1"), wire::kAuthorityProgram, wire::AuthorityProcedure::kFetch,
      wire::FetchArgs{.handle = file, .with_striped = with_striped}));
  EXPECT_TRUE(result.has_value());
  return *result;
}

wire::FetchResult DirectoryFixture::merge(const Handle& file, std::uint64_t size, std::uint32_t epoch,
                                          std::optional<nfs3::Time> mtime, std::optional<nfs3::Time> atime) {
  wire::MergeResult result = merge({{file, Epoch{epoch}, size, mtime, atime}});
  EXPECT_EQ(result.files.size(), 1u);
  return result.files.at(0);
}
wire::MergeResult DirectoryFixture::merge(std::vector<wire::FileMerge> files, std::uint32_t teller) {
  auto result = run(service::internal_call<wire::MergeResult>(
      network_, endpoint("dir1"), wire::kAuthorityProgram, wire::AuthorityProcedure::kMerge,
      wire::MergeArgs{std::move(files), teller}));
  EXPECT_TRUE(result.has_value());
  return *result;
}

wire::LockArgs DirectoryFixture::lock_of(const Handle& object, const wire::TransactionName& owner,
                                         bool exclusive) const {
  constexpr std::uint64_t youngest = ~std::uint64_t{0};
  wire::CellName cell = name_of(cell_of(handles_.open(object).value()));
  return {.id = owner, .age = youngest, .items = {{.exclusive = exclusive, .cell = cell, .name = {}}}};
}

void DirectoryFixture::give_up(const wire::TransactionName& owner) {
  auto given_up =
      peer<wire::PeerResult>(wire::DirectoryProcedure::kFinish, wire::FinishArgs{owner, false, kRootSite});
  EXPECT_EQ(given_up.status, wire::PeerStatus::kOk);
}

}  // namespace slice::dirserver::testing
