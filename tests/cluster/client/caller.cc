#include "tests/cluster/client/caller.h"

namespace slice::client {

void must(nfsstat3 status, const std::string& what, nfsstat3 wanted) {
  if (status == wanted) return;
  throw RpcError(what + " answers " + status_name(status) +
                 (wanted == NFS3_OK ? "" : std::string(", not ") + status_name(wanted)));
}

namespace {

Handle handle_of(const post_op_fh3& from, const std::string& what) {
  if (from.handle_follows == 0) throw RpcError(what + " gives no handle");
  return Handle(from.post_op_fh3_u.handle);
}

}  // namespace

Handle Caller::lookup(const Handle& folder, const std::string& name) {
  const auto found = call(kLookup, LOOKUP3args{in_folder(folder, name)});
  must((*found)->status, "LOOKUP of " + name);
  return Handle((*found)->LOOKUP3res_u.resok.object);
}

fattr3 Caller::attributes(const Handle& object) {
  const auto got = call(kGetattr, GETATTR3args{object.raw()});
  must((*got)->status, "GETATTR");
  return (*got)->GETATTR3res_u.resok.obj_attributes;
}

Handle Caller::create(const Handle& folder, const std::string& name) {
  const auto made = call(kCreate, create_arguments(folder, name, GUARDED));
  must((*made)->status, "CREATE of " + name);
  return handle_of((*made)->CREATE3res_u.resok.obj, "CREATE");
}

Handle Caller::make_folder(const Handle& folder, const std::string& name) {
  const auto made = call(kMkdir, MKDIR3args{in_folder(folder, name), with_mode(0755)});
  must((*made)->status, "MKDIR of " + name);
  return handle_of((*made)->MKDIR3res_u.resok.obj, "MKDIR");
}

void Caller::set_attributes(const Handle& object, const sattr3& attributes) {
  SETATTR3args arguments;
  std::memset(&arguments, 0, sizeof arguments);
  arguments.object = object.raw();
  arguments.new_attributes = attributes;
  must(status(kSetattr, arguments), "SETATTR");
}

void Caller::before_unpacking(const Handle& folder, const std::string& name) {
  must(status(kLookup, LOOKUP3args{in_folder(folder, name)}), "LOOKUP of " + name + " before it is made",
       NFS3ERR_NOENT);
  must(status(kAccess, ACCESS3args{folder.raw(), 0x1f}), "ACCESS");
}

void Caller::after_unpacking(const Handle& folder, const std::string& name, const Handle& object,
                             std::uint32_t mode) {
  attributes(object);
  if (lookup(folder, name).bytes() != object.bytes()) throw RpcError(name + " leads to another file");
  set_attributes(object, with_mode(mode));
  sattr3 times = no_attributes();
  times.mtime.set_it = SET_TO_CLIENT_TIME;
  times.mtime.set_mtime_u.mtime = {1'000'000'000, 0};
  set_attributes(object, times);
}

Handle Caller::unpack_file(const Handle& folder, const std::string& name) {
  before_unpacking(folder, name);
  Handle file = create(folder, name);
  after_unpacking(folder, name, file, 0444);
  return file;
}

Handle Caller::unpack_folder(const Handle& folder, const std::string& name) {
  before_unpacking(folder, name);
  Handle made = make_folder(folder, name);
  after_unpacking(folder, name, made, 0755);
  return made;
}

}  // namespace slice::client
