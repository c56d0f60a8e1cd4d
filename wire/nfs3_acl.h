// NFSACL version 3: access control lists beside NFSv3, Sun's protocol as Solaris and Linux speak it (no RFC;
// Linux has it in fs/nfs_common/nfsacl.c). The lists are those of POSIX 1003.1e, draft 17, section 23.
// Permissions are bits of a mode: read 4, write 2, execute 1. Decoders are as those of wire/nfs3.h.
#ifndef SLICE_WIRE_NFS3_ACL_H
#define SLICE_WIRE_NFS3_ACL_H

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "wire/nfs3.h"

namespace slice::nfs3 {

inline constexpr std::size_t kMaxAclEntries = 1024;  // of each of an object's two lists

// A named user's entry, or a named group's.
struct NamedAccess {
  std::uint32_t id = 0;
  std::uint8_t permissions = 0;
  auto operator<=>(const NamedAccess&) const = default;
};

// One list. Extended, it has a mask: the most that anybody has by it but the owner and others.
struct Acl {
  std::uint8_t owner = 0, group = 0, other = 0;
  std::optional<std::uint8_t> mask;        // always there with named entries
  std::vector<NamedAccess> users, groups;  // by id, each once
  bool operator==(const Acl&) const = default;
};

// What an extended list says beyond the mode of its object: there the owner's bits are the owner's, the
// group's the mask, the others' the others'. So a mode that is set later sets the list as well.
struct ExtendedAccess {
  std::uint8_t group = 0;  // of the object's group
  std::vector<NamedAccess> users, groups;
  bool operator==(const ExtendedAccess&) const = default;
};
// Kept with every copy of an object's attributes; null: the mode says all.
using SharedAccess = std::shared_ptr<const ExtendedAccess>;
using SharedAcl = std::shared_ptr<const Acl>;

Acl acl_of(std::uint32_t mode, const ExtendedAccess* access);
// The nine bits of the mode by which an object has the list, and what it has beyond that.
std::uint32_t mode_of(const Acl& acl);
SharedAccess beyond_mode(const Acl& acl);
// What a new object has of its directory's default list, and in `mode`, as it was asked for, what is left of
// that (section 23.1.5.4).
SharedAccess inherit(const Acl& defaults, std::uint32_t& mode);

// Which lists are meant, and of which only the number of entries.
inline constexpr std::uint32_t kAclAccess = 1, kAclAccessCount = 2, kAclDefault = 4, kAclDefaultCount = 8,
                               kAclAll = 15;
struct GetaclArgs {
  HandleView object;
  std::uint32_t mask = 0;
};
struct SetaclArgs {
  HandleView object;
  std::uint32_t mask = 0;
  // Nothing: without entries.
  std::optional<Acl> access, defaults;
  bool valid = true;  // they are lists as they must be (section 23.1.3)
};
struct GetaclOk {
  PostOpAttributes attributes;
  std::uint32_t mask = 0;
  std::optional<Acl> access, defaults;
};
struct SetaclOk {
  PostOpAttributes attributes;
};
bool decode_arguments(ByteView bytes, GetaclArgs& out);
bool decode_arguments(ByteView bytes, SetaclArgs& out);
void encode_arguments(rpc::XdrWriter& out, const GetaclArgs& args);
void encode_arguments(rpc::XdrWriter& out, const SetaclArgs& args);
void encode_result(rpc::XdrWriter& out, const GetaclOk& ok);
void encode_result(rpc::XdrWriter& out, const SetaclOk& ok);
bool decode_result(rpc::XdrReader& in, Status& status, GetaclOk& out);
bool decode_result(rpc::XdrReader& in, Status& status, SetaclOk& out);

}  // namespace slice::nfs3

#endif  // SLICE_WIRE_NFS3_ACL_H
