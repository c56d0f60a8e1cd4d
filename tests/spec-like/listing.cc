// READDIR and READDIRPLUS of whole directories, and the operations that build a file set and take it away.
#include "tests/spec-like/checks.h"
#include "tests/spec-like/operations.h"
#include "wire/nfs3_readdir.h"

namespace slice::load {

using nfs3::Procedure;
using NfsStatus = nfs3::Status;

namespace {

struct Position {
  std::uint64_t cookie = 0;
  nfs3::CookieVerifier verifier{};
  bool eof = false;
};

// Holds the entries of one reply against the listing; what is wrong with them.
std::string take_entries(nfs3::EntryListReader& list, Listing& listing, Position& position) {
  nfs3::DirectoryEntry entry;
  std::string what;
  std::size_t entries = 0;
  while (list.next(entry)) {
    ++entries;
    position.cookie = entry.cookie;
    std::string one = listing.take(entry.name, entry.fileid);
    if (one.empty() && entry.attributes && entry.attributes->fileid != entry.fileid && entry.name != "..") {
      one = fmt::format("shows {} with fileid {} and attributes of fileid {}", entry.name, entry.fileid.value,
                        entry.attributes->fileid.value);
    }
    if (what.empty()) what = one;
  }
  if (!list.complete()) return "is malformed";
  position.eof = list.eof();
  position.verifier = list.verifier();
  if (what.empty() && entries == 0 && !position.eof) return "gives no entry, and not the end either";
  return what;
}

}  // namespace

Task<bool> Operations::list(Directory& directory, bool plus) {
  const Procedure procedure = plus ? Procedure::kReaddirplus : Procedure::kReaddir;
  const std::uint32_t room = nfs_.limits().names;
  Listing listing(files_, directory);
  Position position;
  while (!position.eof) {
    Result<Connection::Reply> reply =
        plus ? co_await nfs_.call(procedure, nfs3::ReaddirplusArgs{directory.handle.view(), position.cookie,
                                                                   position.verifier, room, room})
             : co_await nfs_.call(procedure, nfs3::ReaddirArgs{directory.handle.view(), position.cookie,
                                                               position.verifier, room});
    if (!reply) co_return failed(procedure, directory.name, reply.error());
    rpc::XdrReader in(reply->results());
    nfs3::EntryListReader entries(in, plus);
    if (entries.status() != NfsStatus::kOk) {
      co_return wrong(procedure, directory.name,
                      fmt::format("answers {}", nfs3::status_name(entries.status())));
    }
    if (!check(procedure, entries.directory(), directory)) co_return false;
    const std::string what = take_entries(entries, listing, position);
    if (!what.empty()) co_return wrong(procedure, directory.name, what);
  }
  const std::string what = listing.end();
  co_return what.empty() || wrong(procedure, directory.name, what);
}

Task<Result<Handle>> Operations::make_directory(const Handle& parent, std::string name,
                                                Directory* directory) {
  nfs3::MkdirArgs args{.where = {parent.view(), name}, .attributes = {}};
  args.attributes.mode = 0755;
  auto made = co_await nfs_.ask<nfs3::CreatedOk>(Procedure::kMkdir, args);
  if (!made) co_return fail(made.error(), "MKDIR " + name);
  const bool there = made->status == NfsStatus::kExist && made->reply.resent;
  if (made->status != NfsStatus::kOk && !there) {
    co_return fail(Errc::kIo, "MKDIR {} answers {}", name, nfs3::status_name(made->status));
  }
  auto found = co_await nfs_.ask<nfs3::LookupOk>(Procedure::kLookup, nfs3::LookupArgs{parent.view(), name});
  if (!found) co_return fail(found.error(), "LOOKUP " + name);
  if (found->status != NfsStatus::kOk || !found->ok.attributes) {
    co_return fail(Errc::kIo, "LOOKUP {} answers {} {} attributes", name, nfs3::status_name(found->status),
                   found->ok.attributes ? "with" : "without");
  }
  if (directory != nullptr) {
    directory->name = name;
    directory->handle = Handle::of(found->ok.object);
    directory->fileid = found->ok.attributes->fileid;
  }
  co_return Handle::of(found->ok.object);
}

Task<bool> Operations::make_link(Directory& directory, Link& link) {
  files_.begin_change(directory, link.name);
  nfs3::SymlinkArgs args{
      .where = {directory.handle.view(), link.name}, .attributes = {}, .target = link.target};
  auto made = co_await nfs_.ask<nfs3::CreatedOk>(Procedure::kSymlink, args);
  const bool again = made && made->reply.resent;
  if (!good(made, Procedure::kSymlink, link.name, again ? NfsStatus::kExist : NfsStatus::kOk))
    co_return false;
  auto found = co_await nfs_.ask<nfs3::LookupOk>(Procedure::kLookup,
                                                 nfs3::LookupArgs{directory.handle.view(), link.name});
  if (!good(found, Procedure::kLookup, link.name)) co_return false;
  if (!found->ok.attributes) co_return wrong(Procedure::kLookup, link.name, "gives no attributes");
  link.handle = Handle::of(found->ok.object);
  link.fileid = found->ok.attributes->fileid;
  files_.end_change(directory, link.name, link.fileid, nfs3::FileType::kSymlink);
  co_return true;
}

Task<bool> Operations::remove_name(const Handle& directory, std::string name, bool is_directory) {
  const Procedure procedure = is_directory ? Procedure::kRmdir : Procedure::kRemove;
  auto answer = co_await nfs_.ask<nfs3::WccData>(procedure, nfs3::RemoveArgs{directory.view(), name});
  co_return good(answer, procedure, name, NfsStatus::kNoEnt);
}

}  // namespace slice::load
