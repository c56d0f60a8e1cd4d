// What READDIR and READDIRPLUS share: walking a directory's names from a cookie on, site by site, without
// ever holding more of the directory than the reply.
#ifndef SLICE_DIRSERVER_OPS_LISTING_H
#define SLICE_DIRSERVER_OPS_LISTING_H

#include <array>

#include "dirserver/ops/operation.h"
#include "wire/nfs3_readdir.h"

namespace slice::dirserver::ops {

struct ListingArgs {
  std::uint64_t cookie = 0;
  nfs3::CookieVerifier verifier{};
  nfs3::EntryListWriter::Limits limits;
  bool plus = false;
};

// Cookies outlive everything but a change of their layout (docs/formats/cells.md): this is its version.
inline constexpr nfs3::CookieVerifier kCookieVerifier = {'s', 'l', 'i', 'c', 'e', 0, 0, 1};
// No reply is larger than this, whatever the client has room for, so that none keeps others waiting.
inline constexpr std::uint32_t kMaxListing = 64 << 10;

Task<NfsAnswer> list(NameSpace& names, NfsRequest& request, ListingArgs args, rpc::XdrWriter& out);

}  // namespace slice::dirserver::ops

#endif  // SLICE_DIRSERVER_OPS_LISTING_H
