#include "tests/sim/client.h"

#include <algorithm>
#include <utility>

namespace slice::sim {

using NfsStatus = nfs3::Status;

namespace {

using nfs3::Procedure;

constexpr std::uint32_t kFirstClient = 0x0a4d0100;  // 10.77.1.0
constexpr std::uint16_t kPort = 700;
constexpr Duration kResendAfter = std::chrono::milliseconds(400);
constexpr Duration kJukeboxPause = std::chrono::milliseconds(100);
constexpr double kDatagrams = 0.4;     // of the clients of proxies
constexpr unsigned kMostPages = 2000;  // of one listing: a server that never ends it
constexpr const char* kLinkText = "somewhere";
constexpr std::string_view kWritten = "ten bytes.";

std::optional<NfsStatus> status_of(const Buffer& results) {
  if (results.size() < sizeof(std::uint32_t)) return std::nullopt;
  return static_cast<NfsStatus>(load_be<std::uint32_t>(results.data()));
}

nfs3::SetAttributes attributes_of(const Operation& operation) {
  nfs3::SetAttributes set;
  set.mode = operation.mode;
  set.size = operation.size;
  return set;
}

}  // namespace

std::size_t History::called(Operation operation) {
  operation.start = instant();
  operations_.push_back(std::move(operation));
  return operations_.size() - 1;
}

// An unanswered CREATE may have given any file a size.
void History::judge_sizes(bool patched) {
  for (const Operation& each : operations_) {
    if (each.kind != Kind::kCreate || !each.size) continue;
    if (each.result != kNoObject) {
      note_cut(each.result);
    } else if (!each.answered) {
      cut_.insert(written_.begin(), written_.end());
    }
  }
  std::vector<Operation> looks;
  for (Operation& each : operations_) {
    ObjectId of = each.result != kNoObject ? each.result : each.object;
    if (!each.seen || !each.seen->size || !written_.contains(of)) continue;
    if (patched && !each.exact && !cut_.contains(of)) {
      looks.push_back({.client = each.client, .kind = Kind::kSize, .object = of, .size = each.seen->size});
      looks.back().answered = true;
      looks.back().start = each.start;
      looks.back().end = each.end;
    }
    if (cut_.contains(of) || (patched && !each.exact)) each.seen->size.reset();
  }
  operations_.insert(operations_.end(), looks.begin(), looks.end());
}

SimClient::SimClient(SimEnsemble& ensemble, History& history, unsigned number)
    : ensemble_(ensemble),
      history_(history),
      number_(number),
      random_(ensemble.random().fork("client")),
      loop_(ensemble.loop()),
      socket_(loop_, ensemble.network(),
              {.self = {kFirstClient + 2 + number, kPort},
               .first_xid = static_cast<std::uint32_t>(random_.next()),
               .resend_after = kResendAfter}) {
  if (!ensemble.has_proxies()) return;
  if (random_.chance(kDatagrams)) {
    // A copy of a call that comes long after its answer, when the server has been dead meanwhile, is carried
    // out once more: failures are remembered in memory alone (docs/testing.md).
    ensemble.network().set_stream({kFirstClient + 2 + number, kPort});
    return;
  }
  stream_.emplace(loop_, ensemble.streams(), ensemble.network(),
                  rpc::Endpoint{kFirstClient + 2 + number, kPort}, static_cast<std::uint32_t>(random_.next()),
                  [this] { return ensemble_.any_proxy(random_); });
}

void SimClient::wrong(std::string what) {
  if (failure_.empty()) failure_ = fmt::format("client {}: {}", number_, what);
}

std::optional<KnownObject> SimClient::known(ObjectId id) const {
  auto found =
      std::find_if(learned_.begin(), learned_.end(), [&](const auto& each) { return each.id == id; });
  return found == learned_.end() ? std::nullopt : std::optional(*found);
}

void SimClient::keep(const std::vector<KnownObject>& known) {
  std::erase_if(learned_, [&](const KnownObject& each) {
    return std::none_of(known.begin(), known.end(), [&](const auto& kept) { return kept.id == each.id; });
  });
}

template <class Args>
Task<std::optional<Buffer>> SimClient::call(Procedure procedure, const Args& args) {
  rpc::XdrWriter out;
  nfs3::encode_arguments(out, args);
  return call_encoded(procedure, out.take());
}

// The results; nothing where the client gave up. A call that is answered JUKEBOX was not carried out: it is
// made again, as a new one.
Task<std::optional<Buffer>> SimClient::call_encoded(Procedure procedure, Buffer arguments) {
  const routing::RoutingTables& tables = ensemble_.tables();
  auto route = tables.place_of(procedure, arguments.view());
  if (!route) {
    wrong("a call without a route");
    co_return std::nullopt;
  }
  MonoTime deadline = loop_.now() + patience_;
  while (loop_.now() < deadline) {
    rpc::Endpoint to = ensemble_.has_proxies() ? ensemble_.any_proxy(random_)
                                               : tables.server_of(route->site_class, route->site).endpoint;
    rpc::Request request{.to = to,
                         .program = nfs3::kProgram,
                         .version = nfs3::kVersion,
                         .procedure = static_cast<std::uint32_t>(procedure),
                         .arguments = arguments.clone(),
                         .timeout = deadline - loop_.now(),
                         .credential = rpc::AuthSys{.machine_name = "client", .uid = 0, .gid = 0}};
    rpc::Channel& channel = stream_ ? static_cast<rpc::Channel&>(*stream_) : socket_;
    auto response = co_await channel.call(std::move(request));
    if (!response) {
      if (response.error().code != Errc::kTimedOut) wrong(response.error().message);
      co_return std::nullopt;
    }
    Buffer results(response->results());
    if (status_of(results) != NfsStatus::kJukebox) co_return results;
    co_await loop_.sleep(kJukeboxPause);
  }
  co_return std::nullopt;
}

std::size_t SimClient::begin(Operation& operation) {
  operation.client = number_;
  std::size_t number = history_.called(operation);
  operation.start = history_.at(number).start;
  return number;
}

Operation SimClient::end(std::size_t number, Operation operation) {
  if (operation.answered) operation.end = history_.instant();
  history_.at(number) = operation;
  ensemble_.trace().note("{}", describe(operation));
  return operation;
}

template <class Ok>
bool SimClient::decode(const Buffer& results, Operation& operation, Ok& ok) {
  rpc::XdrReader in(results.view());
  if (!nfs3::decode_result(in, operation.status, ok)) {
    wrong("results that do not decode: " + describe(operation));
    return false;
  }
  operation.answered = true;
  return true;
}

void SimClient::saw(Operation& operation, const nfs3::PostOpAttributes& attributes,
                    const std::optional<nfs3::HandleView>& handle) {
  if (!attributes) {
    wrong("an answer without attributes: " + describe(operation));
    return;
  }
  operation.seen = Seen{attributes->type, attributes->mode, attributes->nlink, attributes->size};
  operation.result = attributes->fileid.value;
  if (!handle) return;
  KnownObject object{.id = operation.result, .type = attributes->type};
  if (handle->size() != object.handle.size()) {
    wrong("a handle of another size: " + describe(operation));
    return;
  }
  std::copy(handle->begin(), handle->end(), object.handle.begin());
  auto opened = ensemble_.handles().open(*handle);
  if (!opened || opened->fileid.value != object.id || opened->type != object.type) {
    wrong("handle and attributes are of different objects: " + describe(operation));
  }
  if (!known(object.id)) learned_.push_back(object);
}

Task<Operation> SimClient::lookup(KnownObject directory, std::string name, bool exact) {
  Operation operation{.kind = Kind::kLookup, .object = directory.id, .name = name, .exact = exact};
  std::size_t number = begin(operation);
  auto results = co_await call(Procedure::kLookup, nfs3::LookupArgs{directory.handle, name});
  nfs3::LookupOk ok;
  if (results && decode(*results, operation, ok) && operation.status == NfsStatus::kOk) {
    saw(operation, ok.attributes, ok.object);
  }
  co_return end(number, std::move(operation));
}

Task<Operation> SimClient::getattr(KnownObject object, bool exact) {
  Operation operation{.kind = Kind::kGetattr, .object = object.id, .exact = exact};
  std::size_t number = begin(operation);
  auto results = co_await call(Procedure::kGetattr, nfs3::HandleView(object.handle));
  nfs3::GetattrOk ok;
  if (results && decode(*results, operation, ok) && operation.status == NfsStatus::kOk) {
    saw(operation, ok.attributes, std::nullopt);
    if (operation.result != object.id) wrong("GETATTR of another object: " + describe(operation));
  }
  co_return end(number, std::move(operation));
}

Task<Operation> SimClient::create(KnownObject directory, Operation operation) {
  operation.object = directory.id;
  std::size_t number = begin(operation);
  nfs3::DirOpArgs where{directory.handle, operation.name};
  std::optional<Buffer> results;
  if (operation.kind == Kind::kMkdir) {
    results = co_await call(Procedure::kMkdir, nfs3::MkdirArgs{where, attributes_of(operation)});
  } else if (operation.kind == Kind::kSymlink) {
    operation.size = std::string_view(kLinkText).size();
    nfs3::SymlinkArgs args{.where = where, .target = kLinkText};
    results = co_await call(Procedure::kSymlink, args);
  } else {
    nfs3::CreateArgs args{.where = where, .mode = operation.how};
    store_be(args.verifier.data(), operation.verifier);
    if (operation.how != nfs3::CreateMode::kExclusive) args.attributes = attributes_of(operation);
    results = co_await call(Procedure::kCreate, args);
  }
  nfs3::CreatedOk ok;
  if (results && decode(*results, operation, ok) && operation.status == NfsStatus::kOk) {
    saw(operation, ok.attributes, ok.object);
    // The bytes of a file that existed are cut before the answer: others may have changed it meanwhile.
    if (operation.size && operation.kind == Kind::kCreate) operation.seen.reset();
  }
  // A file that is removed while its bytes are cut: the cut had its effect, and the answer says that the file
  // is gone. As much is known as of a call without an answer.
  if (operation.kind == Kind::kCreate && operation.size && operation.status == NfsStatus::kStale) {
    operation.answered = false;
  }
  co_return end(number, std::move(operation));
}

Task<Operation> SimClient::remove(KnownObject directory, Operation operation) {
  operation.object = directory.id;
  std::size_t number = begin(operation);
  Procedure procedure = operation.kind == Kind::kRmdir ? Procedure::kRmdir : Procedure::kRemove;
  auto results = co_await call(procedure, nfs3::DirOpArgs{directory.handle, operation.name});
  nfs3::WccData ok;
  if (results) decode(*results, operation, ok);
  co_return end(number, std::move(operation));
}

Task<Operation> SimClient::rename(KnownObject from, KnownObject to, Operation operation) {
  operation.kind = Kind::kRename;
  operation.object = from.id;
  operation.to = to.id;
  std::size_t number = begin(operation);
  auto results = co_await call(Procedure::kRename, nfs3::RenameArgs{.from = {from.handle, operation.name},
                                                                    .to = {to.handle, operation.to_name}});
  nfs3::RenameResult ok;
  if (results) decode(*results, operation, ok);
  co_return end(number, std::move(operation));
}

Task<Operation> SimClient::link(KnownObject file, KnownObject to, Operation operation) {
  operation.kind = Kind::kLink;
  operation.object = file.id;
  operation.to = to.id;
  std::size_t number = begin(operation);
  auto results = co_await call(Procedure::kLink,
                               nfs3::LinkArgs{.file = file.handle, .link = {to.handle, operation.to_name}});
  nfs3::LinkResult ok;
  if (results) decode(*results, operation, ok);
  co_return end(number, std::move(operation));
}

Task<Operation> SimClient::setattr(KnownObject object, Operation operation) {
  operation.kind = Kind::kSetattr;
  operation.object = object.id;
  if (operation.size) history_.note_cut(object.id);
  std::size_t number = begin(operation);
  auto results =
      co_await call(Procedure::kSetattr,
                    nfs3::SetattrArgs{.object = object.handle, .attributes = attributes_of(operation)});
  nfs3::WccData ok;
  if (results) decode(*results, operation, ok);
  co_return end(number, std::move(operation));
}

Task<Operation> SimClient::write(KnownObject file, std::uint64_t offset, bool exact) {
  ByteView data = as_bytes(kWritten);
  Operation operation{.kind = Kind::kWrite, .object = file.id, .size = offset + data.size(), .exact = exact};
  history_.note_written(file.id);
  std::size_t number = begin(operation);
  nfs3::WriteArgs args{.file = file.handle,
                       .offset = offset,
                       .count = static_cast<std::uint32_t>(data.size()),
                       .stable = nfs3::Stable::kFileSync,
                       .data = data};
  auto results = co_await call(Procedure::kWrite, args);
  nfs3::WriteOk ok;
  if (results && decode(*results, operation, ok) && operation.status == NfsStatus::kOk &&
      ok.count != data.size()) {
    wrong("a short WRITE: " + describe(operation));
  }
  // A file that is removed while it is written to: a part of the WRITE may have had its effect before.
  if (operation.status == NfsStatus::kStale && !exact) operation.answered = false;
  co_return end(number, std::move(operation));
}

Task<Operation> SimClient::commit(KnownObject file) {
  Operation operation{.kind = Kind::kCommit, .object = file.id};
  std::size_t number = begin(operation);
  auto results = co_await call(Procedure::kCommit, nfs3::CommitArgs{.file = file.handle});
  nfs3::CommitOk ok;
  if (results) decode(*results, operation, ok);
  co_return end(number, std::move(operation));
}

// False at the listing's end.
bool SimClient::add_page(const Buffer& results, bool plus, Listing& listing, std::uint64_t& cookie,
                         nfs3::CookieVerifier& verifier) {
  rpc::XdrReader in(results.view());
  nfs3::EntryListReader list(in, plus);
  listing.status = list.status();
  if (list.status() != NfsStatus::kOk) return false;
  nfs3::DirectoryEntry entry;
  while (list.next(entry)) {
    cookie = entry.cookie;
    std::string name(entry.name);
    if (name == "." || name == "..") continue;
    if (!listing.names.emplace(name, entry.fileid.value).second) wrong("a name is listed twice: " + name);
    if (entry.attributes && entry.attributes->fileid != entry.fileid)
      wrong("listed with other attributes: " + name);
  }
  verifier = list.verifier();
  if (!list.complete()) wrong("a listing that does not decode");
  return list.complete() && !list.eof();
}

Task<SimClient::Listing> SimClient::list(KnownObject directory, const std::vector<std::string>& names,
                                         bool exact) {
  Operation operation{.kind = exact ? Kind::kListing : Kind::kListedName, .object = directory.id};
  operation.client = number_;
  operation.start = history_.instant();
  Listing listing;
  std::uint64_t cookie = 0;
  nfs3::CookieVerifier verifier{};
  bool plus = random_.chance(0.5), more = true;
  for (unsigned pages = 0; more; ++pages) {
    if (pages == kMostPages) wrong("a listing without an end");
    if (pages == kMostPages) break;
    auto count = static_cast<std::uint32_t>(random_.chance(0.5) ? 8192 : plus ? 700 : 200);
    std::optional<Buffer> results;
    if (plus) {
      nfs3::ReaddirplusArgs args{directory.handle, cookie, verifier, count, count};
      results = co_await call(Procedure::kReaddirplus, args);
    } else {
      results =
          co_await call(Procedure::kReaddir, nfs3::ReaddirArgs{directory.handle, cookie, verifier, count});
    }
    if (!results) co_return Listing{};
    more = add_page(*results, plus, listing, cookie, verifier);
  }
  operation.answered = true;
  operation.end = history_.instant();
  operation.status = listing.status.value_or(NfsStatus::kServerFault);
  if (exact) {
    operation.listing = listing.names;
    std::size_t number = history_.called(operation);
    history_.at(number).start = operation.start;
    ensemble_.trace().note("{}", describe(operation));
    co_return listing;
  }
  for (const std::string& name : names) {
    Operation of_name = operation;
    of_name.name = name;
    auto found = listing.names.find(name);
    if (found != listing.names.end()) of_name.result = found->second;
    std::size_t number = history_.called(of_name);
    history_.at(number).start = operation.start;
    ensemble_.trace().note("{}", describe(of_name));
    if (operation.status != NfsStatus::kOk) break;  // it failed: said once
  }
  for (const auto& [name, id] : listing.names) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      wrong("a name that nobody made is listed: " + name);
  }
  co_return listing;
}

}  // namespace slice::sim
