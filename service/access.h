// Who a client is after the export's squashing, and what a file's mode and access control list let them do.
#ifndef SLICE_SERVICE_ACCESS_H
#define SLICE_SERVICE_ACCESS_H

#include <optional>
#include <tl/expected.hpp>
#include <vector>

#include "common/settings.h"
#include "rpc/dispatcher.h"
#include "rpc/refusals.h"
#include "wire/nfs3_acl.h"

namespace slice::service {

struct Identity {
  std::uint32_t uid = 65534;
  std::uint32_t gid = 65534;
  std::vector<std::uint32_t> groups;
  bool read_only = false;  // the export is
  bool superuser() const { return uid == 0; }
  bool in_group(std::uint32_t group) const;
};

// Why a client is nobody here; NFS3ERR_ACCES.
enum class Stranger {
  kNoExport,        // names its address
  kUnreservedPort,  // that of its call, and its export is secure
  kTransport,       // its call did not come as its export wants it to (xprtsec)
  kFlavor           // nor does its user (sec)
};
rpc::Refused refused(Stranger why);
// Whether a client is a stranger to the entry that fits its address (null: none does), whose call came so;
// and the same of calls of protocols beside NFS (MOUNT, NLM, NSM), which clients speak over connections of
// their own and cannot protect: those of Linux do not. However they come is good enough.
std::optional<Stranger> find_stranger(const ExportConfig* entry, rpc::Endpoint client, CallSecurity how);
std::optional<Stranger> find_stranger_beside(const ExportConfig* entry, rpc::Endpoint client);
// By exports(5): the first entry of those that count in `tree` that fits the client's address. A call of the
// ensemble itself is the superuser.
tl::expected<Identity, Stranger> identify(const Settings& settings, TreeId tree, const rpc::Call& call);
// The same of calls of protocols beside NFS, about something in a tree; and where they are about nothing in
// particular, by the first entry of all.
tl::expected<Identity, Stranger> identify_beside(const Settings& settings, TreeId tree,
                                                 const rpc::Call& call);
tl::expected<Identity, Stranger> identify_beside(const Settings& settings, const rpc::Call& call);

// Of what an object's permissions are made; no longer-lived than the attributes. `access`: null where the
// mode says all.
struct Permissions {
  Permissions(const nfs3::Attributes& mode,  // NOLINT(google-explicit-constructor): most have no more
              const nfs3::ExtendedAccess* beyond = nullptr)
      : attributes(mode), access(beyond) {}
  const nfs3::Attributes& attributes;
  const nfs3::ExtendedAccess* access;
};

inline constexpr unsigned kMayRead = 4, kMayWrite = 2, kMayExecute = 1;
// As POSIX has it (1003.1e draft 17, section 23.1.5.1): the owner; else who is named, as far as the mask lets
// them; else the groups, one of which must give all that is wanted, as far as the mask lets it; else the
// others. The superuser may all but execute a file without x bits.
bool may(const Identity& who, const Permissions& of, unsigned wanted);
// For READ and WRITE: as `may`, and the owner always may (the file may have been opened before a chmod), and
// READ also with execute permission alone (to run a program), as other NFS servers do.
bool may_transfer(const Identity& who, const Permissions& of, bool write);
// Whether a write by `who` takes set-id bits from the file: then the authority, which takes them at the
// merge, is told of it before the write is answered.
bool write_clears_set_id(const Identity& who, const nfs3::Attributes& attributes);
// What ACCESS answers, out of `asked` (RFC 1813 section 3.3.4).
std::uint32_t access_mask(const Identity& who, const Permissions& of, std::uint32_t asked);

}  // namespace slice::service

#endif  // SLICE_SERVICE_ACCESS_H
