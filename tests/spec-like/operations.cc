#include "tests/spec-like/operations.h"

#include <algorithm>

#include "tests/spec-like/checks.h"

namespace slice::load {

using nfs3::Procedure;
using NfsStatus = nfs3::Status;

namespace {

constexpr std::uint32_t kDirectoryNeeds = nfs3::kAccessRead | nfs3::kAccessLookup;
constexpr std::uint32_t kDirectoryAsks =
    kDirectoryNeeds | nfs3::kAccessModify | nfs3::kAccessExtend | nfs3::kAccessDelete;
constexpr std::uint32_t kFileNeeds = nfs3::kAccessRead | nfs3::kAccessModify | nfs3::kAccessExtend;
constexpr std::uint32_t kFileAsks = kFileNeeds | nfs3::kAccessExecute;

}  // namespace

bool Operations::wrong(Procedure procedure, const std::string& about, const std::string& what) {
  ++tally_.violations;
  if (tally_.texts.size() < Tally::kTexts) {
    tally_.texts.push_back(fmt::format(
        "WRONG {} {}: {}", nfs3::procedure_name(static_cast<std::uint32_t>(procedure)), about, what));
  }
  return false;
}

bool Operations::failed(Procedure procedure, const std::string& about, const Error& error) {
  if (error.code == Errc::kCorrupt) return wrong(procedure, about, error.message);
  ++tally_.failed;
  if (tally_.texts.size() < Tally::kTexts) {
    tally_.texts.push_back(fmt::format("FAILED {} {}: {}",
                                       nfs3::procedure_name(static_cast<std::uint32_t>(procedure)), about,
                                       error.message));
  }
  return false;
}

template <class Ok>
bool Operations::good(const Result<Answer<Ok>>& answer, Procedure procedure, const std::string& about,
                      NfsStatus also) {
  if (!answer) return failed(procedure, about, answer.error());
  if (answer->status == NfsStatus::kOk || answer->status == also) return true;
  return wrong(procedure, about, fmt::format("answers {}", nfs3::status_name(answer->status)));
}

bool Operations::check(Procedure procedure, const nfs3::PostOpAttributes& attributes,
                       const Directory& directory) {
  if (!attributes) return true;
  const std::string what =
      check_attributes(*attributes, {.type = nfs3::FileType::kDirectory, .fileid = directory.fileid});
  return what.empty() || wrong(procedure, directory.name, what);
}

Task<bool> Operations::check(Procedure procedure, nfs3::PostOpAttributes attributes, File& file) {
  if (!attributes) co_return true;
  const std::string what =
      check_attributes(*attributes, {.fileid = file.fileid, .size = file.size, .mode = file.mode});
  co_return what.empty() || co_await suspect(procedure, file, what);
}

// Absent or true: pre-operation attributes that are wrong make clients keep what is stale.
bool Operations::check_before(Procedure procedure, const nfs3::WccData& wcc, const File& file, bool resent) {
  if (!wcc.before || resent || file.dirty || wcc.before->size == file.size) return true;
  return wrong(procedure, where(file),
               fmt::format("shows size {} before it, which was {}", wcc.before->size, file.size));
}

// A server that restarted may have lost unstable bytes, and tells so by its verifier: then they are written
// again.
Task<bool> Operations::suspect(Procedure procedure, File& file, std::string what) {
  if (!file.dirty) co_return wrong(procedure, where(file), what);
  auto same = co_await ask_commit(file);
  if (!same) co_return false;
  if (*same) co_return wrong(procedure, where(file), what);
  co_return co_await rewrite(file);
}

Task<bool> Operations::lookup(File& file) {
  const std::string name = file.name();
  Directory& directory = directory_of(file);
  auto answer =
      co_await nfs_.ask<nfs3::LookupOk>(Procedure::kLookup, nfs3::LookupArgs{directory.handle.view(), name});
  if (!good(answer, Procedure::kLookup, where(file))) co_return false;
  if (answer->ok.object.empty()) co_return wrong(Procedure::kLookup, where(file), "gives an empty handle");
  if (!check(Procedure::kLookup, answer->ok.directory, directory)) co_return false;
  co_return co_await check(Procedure::kLookup, answer->ok.attributes, file);
}

Task<bool> Operations::lookup_missing(std::uint32_t at, std::string name) {
  Directory& directory = files_.directories()[at];
  auto answer =
      co_await nfs_.ask<nfs3::LookupOk>(Procedure::kLookup, nfs3::LookupArgs{directory.handle.view(), name});
  const std::string about = directory.name + "/" + name;
  if (!good(answer, Procedure::kLookup, about, NfsStatus::kNoEnt)) co_return false;
  if (answer->status == NfsStatus::kOk)
    co_return wrong(Procedure::kLookup, about, "finds a name that is not there");
  co_return check(Procedure::kLookup, answer->ok.directory, directory);
}

Task<bool> Operations::access(File& file) {
  auto answer =
      co_await nfs_.ask<nfs3::AccessOk>(Procedure::kAccess, nfs3::AccessArgs{file.handle.view(), kFileAsks});
  if (!good(answer, Procedure::kAccess, where(file))) co_return false;
  const std::string what = check_access(answer->ok.access, kFileAsks, kFileNeeds);
  if (!what.empty()) co_return wrong(Procedure::kAccess, where(file), what);
  co_return co_await check(Procedure::kAccess, answer->ok.attributes, file);
}

Task<bool> Operations::access(Directory& directory) {
  auto answer = co_await nfs_.ask<nfs3::AccessOk>(Procedure::kAccess,
                                                  nfs3::AccessArgs{directory.handle.view(), kDirectoryAsks});
  if (!good(answer, Procedure::kAccess, directory.name)) co_return false;
  const std::string what = check_access(answer->ok.access, kDirectoryAsks, kDirectoryNeeds);
  if (!what.empty()) co_return wrong(Procedure::kAccess, directory.name, what);
  co_return check(Procedure::kAccess, answer->ok.attributes, directory);
}

Task<bool> Operations::getattr(File& file) {
  auto answer = co_await nfs_.ask<nfs3::GetattrOk>(Procedure::kGetattr, file.handle.view());
  if (!good(answer, Procedure::kGetattr, where(file))) co_return false;
  co_return co_await check(Procedure::kGetattr, answer->ok.attributes, file);
}

Task<bool> Operations::setattr(File& file) {
  if (file.size > file.nominal && !file.temporary) co_return co_await set_size(file, file.nominal);
  co_return co_await set_mode(file, file.mode == 0644 ? 0600 : 0644);
}

Task<bool> Operations::set_size(File& file, std::uint64_t size) {
  nfs3::SetattrArgs args{.object = file.handle.view(), .attributes = {}, .guard = std::nullopt};
  args.attributes.size = size;
  auto answer = co_await nfs_.ask<nfs3::WccData>(Procedure::kSetattr, args);
  if (!good(answer, Procedure::kSetattr, where(file))) co_return false;
  if (!check_before(Procedure::kSetattr, answer->ok, file, answer->reply.resent)) co_return false;
  file.size = size;
  co_return co_await check(Procedure::kSetattr, answer->ok.after, file);
}

Task<bool> Operations::set_mode(File& file, std::uint32_t mode) {
  nfs3::SetattrArgs args{.object = file.handle.view(), .attributes = {}, .guard = std::nullopt};
  args.attributes.mode = mode;
  args.attributes.set_mtime = nfs3::SetAttributes::TimeHow::kServerTime;
  auto answer = co_await nfs_.ask<nfs3::WccData>(Procedure::kSetattr, args);
  if (!good(answer, Procedure::kSetattr, where(file))) co_return false;
  if (!check_before(Procedure::kSetattr, answer->ok, file, answer->reply.resent)) co_return false;
  file.mode = mode;
  co_return co_await check(Procedure::kSetattr, answer->ok.after, file);
}

Operations::Range Operations::range_to_read(File& file) {
  const std::uint64_t transfers = std::max<std::uint64_t>(1, (file.size + mix_.transfer - 1) / mix_.transfer);
  if (!mix_.sequential) return {files_.random().below(transfers) * mix_.transfer, mix_.transfer};
  if (file.cursor >= file.size) file.cursor = 0;
  const std::uint64_t at = file.cursor;
  file.cursor += mix_.transfer;
  return {at, mix_.transfer};
}

Operations::Range Operations::range_to_write(File& file) {
  Range range = range_to_read(file);
  range.count = std::min<std::uint64_t>(range.count, file.size - range.offset);
  return range;
}

// A server may answer with less than was asked; then the rest is asked for.
Task<bool> Operations::read(File& file) {
  const Range range = range_to_read(file);
  std::uint64_t done = 0;
  do {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(range.count - done, nfs_.limits().read));
    const Range part{range.offset + done, count};
    auto answer = co_await nfs_.ask<nfs3::ReadOk>(Procedure::kRead,
                                                  nfs3::ReadArgs{file.handle.view(), part.offset, count});
    if (!good(answer, Procedure::kRead, where(file))) co_return false;
    if (!co_await check_read(file, part, *answer)) co_return false;
    done += answer->ok.count;
    tally_.bytes_read += answer->ok.count;
    if (answer->ok.eof || answer->ok.count == 0) break;
  } while (done < range.count);
  co_return true;
}

Task<bool> Operations::check_read(File& file, Range range, const Answer<nfs3::ReadOk>& answer) {
  const std::string what =
      load::check_read(file, range.offset, static_cast<std::uint32_t>(range.count), answer.ok);
  if (!what.empty()) co_return co_await suspect(Procedure::kRead, file, what);
  co_return co_await check(Procedure::kRead, answer.ok.attributes, file);
}

Task<bool> Operations::write(File& file) {
  if (file.size == 0) co_return co_await append(file);
  const Range range = range_to_write(file);
  file.renew(range.offset, range.count);
  co_return co_await write_range(file, range, mix_.file_sync);
}

// Behind the end; with the rest of the last block, which it shares.
Task<bool> Operations::append(File& file) {
  if (file.size > 2 * file.nominal + 65536) co_return co_await write(file);
  const std::uint64_t start = file.size / kBlock * kBlock;
  const std::uint64_t more = file.size == 0 ? std::min<std::uint64_t>(file.nominal, mix_.transfer)
                                            : std::min<std::uint64_t>(file.nominal / 2 + 1, mix_.transfer);
  const Range range{start, file.size - start + more};
  file.renew(range.offset, range.count);
  co_return co_await write_range(file, range, mix_.file_sync);
}

Task<bool> Operations::write_range(File& file, Range range, bool stable) {
  Buffer bytes(range.count);
  fill(file, range.offset, bytes.span());
  for (std::uint64_t done = 0; done < range.count;) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(range.count - done, nfs_.limits().write));
    const auto how = stable ? nfs3::Stable::kFileSync : nfs3::Stable::kUnstable;
    auto answer = co_await nfs_.ask<nfs3::WriteOk>(
        Procedure::kWrite, nfs3::WriteArgs{file.handle.view(), range.offset + done, count, how,
                                           bytes.view().subspan(done, count)});
    if (!good(answer, Procedure::kWrite, where(file))) co_return false;
    const nfs3::WriteOk& ok = answer->ok;
    if (ok.count == 0 || ok.count > count) {
      co_return wrong(Procedure::kWrite, where(file), fmt::format("of {} bytes answers {}", count, ok.count));
    }
    if (ok.committed < how) co_return wrong(Procedure::kWrite, where(file), "is less stable than was asked");
    if (!check_before(Procedure::kWrite, ok.wcc, file, answer->reply.resent)) co_return false;
    done += ok.count;
    file.size = std::max(file.size, range.offset + done);
    tally_.bytes_written += ok.count;
    if (ok.committed != nfs3::Stable::kFileSync) {
      if (!file.dirty) files_.wrote_unstable(file);
      file.lost = file.dirty && (file.lost || file.verifier != ok.verifier);
      file.dirty = true;
      file.verifier = ok.verifier;
    }
    if (!co_await check(Procedure::kWrite, ok.wcc.after, file)) co_return false;
  }
  co_return true;
}

Task<Result<bool>> Operations::ask_commit(File& file) {
  auto answer =
      co_await nfs_.ask<nfs3::CommitOk>(Procedure::kCommit, nfs3::CommitArgs{file.handle.view(), 0, 0});
  if (!good(answer, Procedure::kCommit, where(file))) co_return fail(Errc::kIo, "COMMIT");
  co_return !file.lost && answer->ok.verifier == file.verifier;
}

Task<bool> Operations::commit(File& file) {
  if (!file.dirty) {
    auto answer =
        co_await nfs_.ask<nfs3::CommitOk>(Procedure::kCommit, nfs3::CommitArgs{file.handle.view(), 0, 0});
    if (!good(answer, Procedure::kCommit, where(file))) co_return false;
    co_return co_await check(Procedure::kCommit, answer->ok.wcc.after, file);
  }
  auto same = co_await ask_commit(file);
  if (!same) {
    files_.wrote_unstable(file);
    co_return false;
  }
  if (!*same) co_return co_await rewrite(file);
  file.dirty = file.lost = false;
  co_return true;
}

// All of it, so that no account of ranges is needed; stable, so that this ends.
Task<bool> Operations::rewrite(File& file) {
  ++tally_.rewritten;
  file.dirty = file.lost = false;
  for (std::uint64_t at = 0; at < file.size; at += mix_.transfer) {
    const Range range{at, std::min<std::uint64_t>(mix_.transfer, file.size - at)};
    Buffer bytes(range.count);
    fill(file, range.offset, bytes.span());
    for (std::uint64_t done = 0; done < range.count;) {
      const auto count =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(range.count - done, nfs_.limits().write));
      auto answer = co_await nfs_.ask<nfs3::WriteOk>(
          Procedure::kWrite, nfs3::WriteArgs{file.handle.view(), range.offset + done, count,
                                             nfs3::Stable::kFileSync, bytes.view().subspan(done, count)});
      if (!good(answer, Procedure::kWrite, where(file))) co_return false;
      if (answer->ok.count == 0) co_return wrong(Procedure::kWrite, where(file), "writes nothing");
      done += answer->ok.count;
    }
  }
  co_return true;
}

Task<bool> Operations::write_whole(File& file) {
  const std::uint64_t size = file.nominal;
  const std::uint64_t piece = std::min<std::uint64_t>(nfs_.limits().write / kBlock * kBlock, 256 << 10);
  for (std::uint64_t at = 0; at < size;) {
    const Range range{at, std::min<std::uint64_t>(std::max(piece, kBlock), size - at)};
    if (!co_await write_range(file, range, false)) co_return false;
    at += range.count;
  }
  co_return file.dirty ? co_await commit(file) : true;
}

Task<bool> Operations::create(File& file) {
  const std::string name = file.name();
  Directory& directory = directory_of(file);
  files_.begin_change(directory, name);
  nfs3::CreateArgs args{.where = {directory.handle.view(), name}, .mode = nfs3::CreateMode::kUnchecked};
  args.attributes.mode = file.mode;
  auto answer = co_await nfs_.ask<nfs3::CreatedOk>(Procedure::kCreate, args);
  if (!good(answer, Procedure::kCreate, where(file))) {
    files_.give_up_change(directory, name);
    co_return false;
  }
  nfs3::PostOpAttributes attributes = answer->ok.attributes;
  if (answer->ok.object) file.handle = Handle::of(*answer->ok.object);
  if (!answer->ok.object || !attributes) {  // a server need not tell
    auto found = co_await nfs_.ask<nfs3::LookupOk>(Procedure::kLookup,
                                                   nfs3::LookupArgs{directory.handle.view(), name});
    if (!good(found, Procedure::kLookup, where(file))) co_return false;
    file.handle = Handle::of(found->ok.object);
    attributes = found->ok.attributes;
  }
  if (attributes) file.fileid = attributes->fileid;
  files_.end_change(directory, name, file.fileid);
  if (!check(Procedure::kCreate, answer->ok.directory.after, directory)) co_return false;
  if (file.handle.size == 0) co_return wrong(Procedure::kCreate, where(file), "gives an empty handle");
  files_.made(file);
  co_return co_await check(Procedure::kCreate, attributes, file);
}

Task<bool> Operations::remove(File& file) {
  const std::string name = file.name(), about = where(file);
  const Handle handle = file.handle;
  Directory& directory = directory_of(file);
  files_.begin_change(directory, name);
  auto answer =
      co_await nfs_.ask<nfs3::WccData>(Procedure::kRemove, nfs3::RemoveArgs{directory.handle.view(), name});
  const bool again = answer && answer->reply.resent;
  if (!good(answer, Procedure::kRemove, about, again ? NfsStatus::kNoEnt : NfsStatus::kOk)) {
    files_.give_up_change(directory, name);
    co_return false;
  }
  if (answer->status == NfsStatus::kNoEnt) ++tally_.replayed;
  files_.end_change(directory, name, std::nullopt);
  files_.forget(file);
  if (!check(Procedure::kRemove, answer->ok.after, directory)) co_return false;
  co_return files_.random().chance(1.0 / 16) ? co_await removed_handle_is_stale(handle, about) : true;
}

Task<bool> Operations::removed_handle_is_stale(Handle handle, std::string about) {
  auto answer = co_await nfs_.ask<nfs3::GetattrOk>(Procedure::kGetattr, handle.view());
  if (!answer) co_return failed(Procedure::kGetattr, about, answer.error());
  if (answer->status == NfsStatus::kOk) {
    co_return wrong(Procedure::kGetattr, about, "finds a file by its handle that was removed");
  }
  co_return true;
}

Task<bool> Operations::rename(File& file) {
  const std::string from = file.name(), to = "f" + std::to_string(files_.new_number()), about = where(file);
  Directory& directory = directory_of(file);
  files_.begin_change(directory, from);
  files_.begin_change(directory, to);
  auto answer = co_await nfs_.ask<nfs3::RenameResult>(
      Procedure::kRename, nfs3::RenameArgs{{directory.handle.view(), from}, {directory.handle.view(), to}});
  const bool again = answer && answer->reply.resent;
  if (!good(answer, Procedure::kRename, about, again ? NfsStatus::kNoEnt : NfsStatus::kOk)) {
    files_.give_up_change(directory, from);
    files_.give_up_change(directory, to);
    co_return false;
  }
  if (answer->status == NfsStatus::kNoEnt) ++tally_.replayed;
  files_.end_change(directory, from, std::nullopt);
  files_.end_change(directory, to, file.fileid);
  file.number = std::stoull(to.substr(1));
  co_return check(Procedure::kRename, answer->ok.from.after, directory) &&
      check(Procedure::kRename, answer->ok.to.after, directory);
}

Task<bool> Operations::readlink(Link& link) {
  auto answer = co_await nfs_.ask<nfs3::ReadlinkOk>(Procedure::kReadlink, link.handle.view());
  if (!good(answer, Procedure::kReadlink, link.name)) co_return false;
  if (answer->ok.target != link.target) {
    co_return wrong(Procedure::kReadlink, link.name,
                    fmt::format("gives '{}', which is '{}'", answer->ok.target, link.target));
  }
  if (!answer->ok.attributes) co_return true;
  const std::string what =
      check_attributes(*answer->ok.attributes,
                       {.type = nfs3::FileType::kSymlink, .fileid = link.fileid, .size = link.target.size()});
  co_return what.empty() || wrong(Procedure::kReadlink, link.name, what);
}

Task<bool> Operations::fsstat() {
  auto answer = co_await nfs_.ask<nfs3::FsstatOk>(Procedure::kFsstat, root_.view());
  if (!good(answer, Procedure::kFsstat, "the volume")) co_return false;
  const std::string what = check_fsstat(answer->ok);
  co_return what.empty() || wrong(Procedure::kFsstat, "the volume", what);
}

}  // namespace slice::load
