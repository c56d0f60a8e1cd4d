#include "tests/spec-like/testing/toy_server.h"

#include <cstdio>
#include <cstdlib>

#include "wire/mount3.h"
#include "wire/nfs3_readdir.h"

namespace slice::load {

using NfsStatus = nfs3::Status;

namespace {

using nfs3::Procedure;
using rpc::Outcome;
using rpc::XdrWriter;

constexpr std::uint64_t kRoot = 1;
constexpr std::uint32_t kToyAddress = 0x7f000001;
constexpr int kOften = 5;  // a lie is told each so many times

struct Object {
  nfs3::FileType type = nfs3::FileType::kRegular;
  std::uint32_t mode = 0644;
  std::string bytes, stable_bytes;  // of a file; of a link: where it points
  std::map<std::string, std::uint64_t> names;
  nfs3::Time mtime{1, 0};
};

}  // namespace

class ToyServer::Nfs : public rpc::Program {
 public:
  Nfs(rpc::EpollLoop& loop, Lie lie) : loop_(loop), lie_(lie) {
    objects_[kRoot].type = nfs3::FileType::kDirectory;
  }
  std::uint32_t number() const override { return nfs3::kProgram; }
  std::uint32_t version() const override { return nfs3::kVersion; }
  std::size_t objects() const { return objects_.size() - 1; }
  Duration delay{0};

  Task<Outcome> handle(const rpc::Call& call, XdrWriter& out) override {
    if (delay > Duration(0)) co_await loop_.sleep(delay);
    co_return answer(call, out);
  }

 private:
  template <class Args>
  using Method = Outcome (Nfs::*)(const Args&, XdrWriter&);
  template <class Args>
  Outcome with(const rpc::Call& call, XdrWriter& out, Method<Args> method) {
    Args args{};
    return nfs3::decode_arguments(call.arguments, args) ? (this->*method)(args, out) : Outcome::kGarbage;
  }

  Outcome answer(const rpc::Call& call, XdrWriter& out) {
    switch (static_cast<Procedure>(call.procedure)) {
      case Procedure::kGetattr:
        return with<nfs3::HandleView>(call, out, &Nfs::getattr);
      case Procedure::kSetattr:
        return with<nfs3::SetattrArgs>(call, out, &Nfs::setattr);
      case Procedure::kLookup:
        return with<nfs3::DirOpArgs>(call, out, &Nfs::lookup);
      case Procedure::kAccess:
        return with<nfs3::AccessArgs>(call, out, &Nfs::access);
      case Procedure::kReadlink:
        return with<nfs3::HandleView>(call, out, &Nfs::readlink);
      case Procedure::kRead:
        return with<nfs3::ReadArgs>(call, out, &Nfs::read);
      case Procedure::kWrite:
        return with<nfs3::WriteArgs>(call, out, &Nfs::write);
      case Procedure::kCreate:
        return with<nfs3::CreateArgs>(call, out, &Nfs::create);
      case Procedure::kMkdir:
        return with<nfs3::MkdirArgs>(call, out, &Nfs::mkdir);
      case Procedure::kSymlink:
        return with<nfs3::SymlinkArgs>(call, out, &Nfs::symlink);
      case Procedure::kRemove:
      case Procedure::kRmdir:
        return with<nfs3::DirOpArgs>(call, out, &Nfs::remove);
      case Procedure::kRename:
        return with<nfs3::RenameArgs>(call, out, &Nfs::rename);
      case Procedure::kReaddir:
        return with<nfs3::ReaddirArgs>(call, out, &Nfs::readdir);
      case Procedure::kReaddirplus:
        return with<nfs3::ReaddirplusArgs>(call, out, &Nfs::readdirplus);
      case Procedure::kFsstat:
        nfs3::encode_result(out, nfs3::FsstatOk{.total_bytes = 100, .free_bytes = 50, .available_bytes = 50});
        return Outcome::kReply;
      case Procedure::kFsinfo:
        nfs3::encode_result(out, nfs3::FsinfoOk{});
        return Outcome::kReply;
      case Procedure::kCommit:
        return with<nfs3::CommitArgs>(call, out, &Nfs::commit);
      default:
        return Outcome::kNoProcedure;
    }
  }

  bool lies(Lie lie) { return lie_ == lie && ++asked_ % kOften == 0; }

  Object* find(nfs3::HandleView handle) {
    if (handle.size() != 8) return nullptr;
    auto found = objects_.find(load_be<std::uint64_t>(handle.data()));
    return found == objects_.end() ? nullptr : &found->second;
  }
  static std::uint64_t number_of(nfs3::HandleView handle) { return load_be<std::uint64_t>(handle.data()); }
  static Buffer handle_of(std::uint64_t number) {
    Buffer handle(8);
    store_be(handle.data(), number);
    return handle;
  }
  nfs3::Attributes attributes_of(std::uint64_t number) {
    const Object& object = objects_[number];
    return {.type = object.type,
            .mode = object.mode,
            .nlink = 1,
            .size = object.bytes.size(),
            .used = object.bytes.size(),
            .fsid = 7,
            .fileid = FileId{number},
            .mtime = object.mtime};
  }
  Outcome refuse(XdrWriter& out, Procedure procedure, NfsStatus status) {
    nfs3::encode_failure(out, procedure, status);
    return Outcome::kReply;
  }

  Outcome getattr(const nfs3::HandleView& handle, XdrWriter& out) {
    if (find(handle) == nullptr) return refuse(out, Procedure::kGetattr, NfsStatus::kStale);
    nfs3::Attributes attributes = attributes_of(number_of(handle));
    if (lies(Lie::kWrongSize)) ++attributes.size;
    const std::size_t start = out.size();
    nfs3::encode_result(out, nfs3::GetattrOk{attributes});
    if (lies(Lie::kGarbage)) out.rewind(start + 40);
    return Outcome::kReply;
  }

  Outcome setattr(const nfs3::SetattrArgs& args, XdrWriter& out) {
    Object* object = find(args.object);
    if (object == nullptr) return refuse(out, Procedure::kSetattr, NfsStatus::kStale);
    const std::uint64_t before = object->bytes.size();
    if (args.attributes.mode) object->mode = *args.attributes.mode;
    if (args.attributes.size) {
      object->bytes.resize(*args.attributes.size);
      object->stable_bytes.resize(*args.attributes.size);
    }
    nfs3::encode_result(out, NfsStatus::kOk, wcc(number_of(args.object), before));
    return Outcome::kReply;
  }

  nfs3::WccData wcc(std::uint64_t number, std::uint64_t before) {
    return {.before = nfs3::WccAttributes{.size = before, .mtime = {}, .ctime = {}},
            .after = attributes_of(number)};
  }

  Outcome lookup(const nfs3::DirOpArgs& args, XdrWriter& out) {
    Object* directory = find(args.directory);
    if (directory == nullptr) return refuse(out, Procedure::kLookup, NfsStatus::kStale);
    auto found = directory->names.find(std::string(args.name));
    const bool is_file = args.name.starts_with("f");
    if (found == directory->names.end() && !(lies(Lie::kFoundName) && !directory->names.empty())) {
      return refuse(out, Procedure::kLookup, NfsStatus::kNoEnt);
    }
    if (is_file && lies(Lie::kMissingName)) return refuse(out, Procedure::kLookup, NfsStatus::kNoEnt);
    if (found == directory->names.end()) found = directory->names.begin();
    const Buffer handle = handle_of(found->second);
    nfs3::encode_result(out, nfs3::LookupOk{.object = handle.view(),
                                            .attributes = attributes_of(found->second),
                                            .directory = attributes_of(number_of(args.directory))});
    return Outcome::kReply;
  }

  Outcome access(const nfs3::AccessArgs& args, XdrWriter& out) {
    if (find(args.object) == nullptr) return refuse(out, Procedure::kAccess, NfsStatus::kStale);
    nfs3::encode_result(out, nfs3::AccessOk{.attributes = std::nullopt, .access = args.access});
    return Outcome::kReply;
  }

  Outcome readlink(const nfs3::HandleView& handle, XdrWriter& out) {
    Object* link = find(handle);
    if (link == nullptr) return refuse(out, Procedure::kReadlink, NfsStatus::kStale);
    const std::string other = link->bytes + "x";
    nfs3::encode_result(out, nfs3::ReadlinkOk{.attributes = attributes_of(number_of(handle)),
                                              .target = lies(Lie::kWrongLink) ? other : link->bytes});
    return Outcome::kReply;
  }

  Outcome read(const nfs3::ReadArgs& args, XdrWriter& out) {
    Object* file = find(args.file);
    if (file == nullptr) return refuse(out, Procedure::kRead, NfsStatus::kStale);
    std::string bytes = args.offset < file->bytes.size() ? file->bytes.substr(args.offset, args.count) : "";
    const bool eof = args.offset + bytes.size() >= file->bytes.size() && !lies(Lie::kWrongEof);
    if (!bytes.empty() && lies(Lie::kWrongByte)) bytes[bytes.size() / 2] ^= 1;
    nfs3::encode_result(out, nfs3::ReadOk{.attributes = attributes_of(number_of(args.file)),
                                          .count = static_cast<std::uint32_t>(bytes.size()),
                                          .eof = eof,
                                          .data = as_bytes(bytes)});
    return Outcome::kReply;
  }

  // Every kOften-th write, all that is not stable goes.
  void restart_now_and_then() {
    if (!lies(Lie::kRestart)) return;
    ++verifier_;
    for (auto& [number, object] : objects_) {
      if (object.type == nfs3::FileType::kRegular) object.bytes = object.stable_bytes;
    }
  }

  Outcome write(const nfs3::WriteArgs& args, XdrWriter& out) {
    restart_now_and_then();
    Object* file = find(args.file);
    if (file == nullptr) return refuse(out, Procedure::kWrite, NfsStatus::kStale);
    std::uint64_t before = file->bytes.size();
    const bool again = args.offset < before;
    if (file->bytes.size() < args.offset + args.count) file->bytes.resize(args.offset + args.count);
    if (!(again && lies(Lie::kLostWrite))) file->bytes.replace(args.offset, args.count, as_text(args.data));
    if (args.stable != nfs3::Stable::kUnstable) file->stable_bytes = file->bytes;
    if (lies(Lie::kWrongBefore)) ++before;
    nfs3::encode_result(out, nfs3::WriteOk{.wcc = wcc(number_of(args.file), before),
                                           .count = args.count,
                                           .committed = args.stable,
                                           .verifier = Verifier{verifier_}});
    return Outcome::kReply;
  }

  Outcome commit(const nfs3::CommitArgs& args, XdrWriter& out) {
    Object* file = find(args.file);
    if (file == nullptr) return refuse(out, Procedure::kCommit, NfsStatus::kStale);
    file->stable_bytes = file->bytes;
    nfs3::encode_result(out, nfs3::CommitOk{.wcc = {}, .verifier = Verifier{verifier_}});
    return Outcome::kReply;
  }

  Outcome make(const nfs3::DirOpArgs& where, nfs3::FileType type, std::string_view bytes, XdrWriter& out) {
    Object* directory = find(where.directory);
    if (directory == nullptr) return refuse(out, Procedure::kCreate, NfsStatus::kStale);
    const std::uint64_t number = next_++;
    Object& object = objects_[number];
    object.type = type;
    object.bytes = bytes;
    directory->names[std::string(where.name)] = number;
    const Buffer handle = handle_of(number);
    nfs3::encode_result(
        out, nfs3::CreatedOk{
                 .object = handle.view(),
                 .attributes = attributes_of(number),
                 .directory = {.before = std::nullopt, .after = attributes_of(number_of(where.directory))}});
    return Outcome::kReply;
  }
  Outcome create(const nfs3::CreateArgs& args, XdrWriter& out) {
    return make(args.where, nfs3::FileType::kRegular, "", out);
  }
  Outcome mkdir(const nfs3::MkdirArgs& args, XdrWriter& out) {
    return make(args.where, nfs3::FileType::kDirectory, "", out);
  }
  Outcome symlink(const nfs3::SymlinkArgs& args, XdrWriter& out) {
    return make(args.where, nfs3::FileType::kSymlink, args.target, out);
  }

  Outcome remove(const nfs3::DirOpArgs& args, XdrWriter& out) {
    Object* directory = find(args.directory);
    auto found = directory == nullptr ? decltype(directory->names.end()){}
                                      : directory->names.find(std::string(args.name));
    if (directory == nullptr || found == directory->names.end()) {
      return refuse(out, Procedure::kRemove, directory == nullptr ? NfsStatus::kStale : NfsStatus::kNoEnt);
    }
    if (!objects_[found->second].names.empty()) return refuse(out, Procedure::kRemove, NfsStatus::kNotEmpty);
    if (!lies(Lie::kForgottenRemove)) {
      objects_.erase(found->second);
      directory->names.erase(found);
    }
    nfs3::encode_result(out, NfsStatus::kOk, nfs3::WccData{});
    return Outcome::kReply;
  }

  Outcome rename(const nfs3::RenameArgs& args, XdrWriter& out) {
    Object *from = find(args.from.directory), *to = find(args.to.directory);
    if (from == nullptr || to == nullptr) return refuse(out, Procedure::kRename, NfsStatus::kStale);
    auto node = from->names.extract(std::string(args.from.name));
    if (!node) return refuse(out, Procedure::kRename, NfsStatus::kNoEnt);
    to->names[std::string(args.to.name)] = node.mapped();
    nfs3::encode_result(out, NfsStatus::kOk, nfs3::RenameResult{});
    return Outcome::kReply;
  }

  // The cookie is the object's number: it stays as names come and go.
  Outcome list(nfs3::HandleView handle, std::uint64_t cookie, bool plus, nfs3::EntryListWriter::Limits limits,
               XdrWriter& out) {
    Object* directory = find(handle);
    if (directory == nullptr) {
      return refuse(out, plus ? Procedure::kReaddirplus : Procedure::kReaddir, NfsStatus::kStale);
    }
    nfs3::EntryListWriter writer(out, plus, attributes_of(number_of(handle)), {}, limits);
    std::map<std::uint64_t, std::string> by_number;
    for (const auto& [name, number] : directory->names) by_number.emplace(number, name);
    bool eof = true;
    for (const auto& [number, name] : by_number) {
      if (number <= cookie || (name.starts_with("f") && lies(Lie::kLostName))) continue;
      const Buffer entry_handle = handle_of(number);
      const nfs3::DirectoryEntry entry{.fileid = FileId{number},
                                       .name = name,
                                       .cookie = number,
                                       .attributes = attributes_of(number),
                                       .handle = entry_handle.view()};
      eof = writer.add(entry);
      if (!eof) break;
      if (lies(Lie::kDoubleName)) writer.add(entry);
    }
    writer.finish(eof);
    return Outcome::kReply;
  }
  Outcome readdir(const nfs3::ReaddirArgs& args, XdrWriter& out) {
    return list(args.directory, args.cookie, false, {.maxcount = std::min(args.count, 700u)}, out);
  }
  Outcome readdirplus(const nfs3::ReaddirplusArgs& args, XdrWriter& out) {
    return list(args.directory, args.cookie, true,
                {.dircount = args.dircount, .maxcount = std::min(args.maxcount, 2000u)}, out);
  }

  rpc::EpollLoop& loop_;
  Lie lie_;
  std::uint64_t asked_ = 0, next_ = kRoot + 1, verifier_ = 100;
  std::map<std::uint64_t, Object> objects_;
};

class ToyServer::Mount : public rpc::Program {
 public:
  std::uint32_t number() const override { return mount3::kProgram; }
  std::uint32_t version() const override { return mount3::kVersion; }
  Task<Outcome> handle(const rpc::Call& call, XdrWriter& out) override {
    std::string_view path;
    if (call.procedure != static_cast<std::uint32_t>(mount3::Procedure::kMnt))
      co_return Outcome::kNoProcedure;
    if (!mount3::decode_path(call.arguments, path)) co_return Outcome::kGarbage;
    Buffer handle(8);
    store_be(handle.data(), kRoot);
    if (path == "/toy") {
      mount3::encode(out, mount3::MntResult{.handle = handle.view(), .flavors = {rpc::kAuthSys}});
    } else {
      mount3::encode(out, mount3::MntResult{.status = mount3::Status::kNoEnt, .handle = {}, .flavors = {}});
    }
    co_return Outcome::kReply;
  }
};

ToyServer::ToyServer(rpc::EpollLoop& loop, Lie lie)
    : dispatcher_(metrics_), nfs_(std::make_unique<Nfs>(loop, lie)), mount_(std::make_unique<Mount>()) {
  dispatcher_.add(*nfs_);
  dispatcher_.add(*mount_);
  server_ = std::make_unique<rpc::Server>(loop, dispatcher_, metrics_);
  auto bound = server_->listen({kToyAddress, 0});
  if (!bound) {
    std::fprintf(stderr, "toy server: %s\n", bound.error().message.c_str());
    std::abort();
  }
  at_ = *bound;
}
ToyServer::~ToyServer() = default;

std::size_t ToyServer::objects() const {
  return nfs_->objects();
}
void ToyServer::set_delay(Duration delay) {
  nfs_->delay = delay;
}

}  // namespace slice::load
