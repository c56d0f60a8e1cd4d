// What is asked of etcd through its JSON gateway (its API of version 3), and what its answers say: JSON whose
// keys and values are base64, and whose numbers are texts. Zero and empty fields are left out. Nothing of an
// answer is believed before it was looked at: what is not as it should be is kCorrupt. Pure functions.
#ifndef SLICE_CONTROL_MANAGER_ETCD_MESSAGES_H
#define SLICE_CONTROL_MANAGER_ETCD_MESSAGES_H

#include <cstdint>
#include <string>
#include <string_view>

#include "common/bytes.h"
#include "control/manager/registry.h"

namespace slice::manager::etcd {

std::string to_base64(ByteView bytes);
// kCorrupt where it is not exactly what to_base64() makes.
Result<std::string> from_base64(std::string_view text);

// Bodies of requests.
std::string authenticate_request(std::string_view user, std::string_view password);
std::string grant_request(Duration time);  // rounded up to whole seconds
std::string lease_request(std::uint64_t lease);
std::string read_request(std::string_view key);
// Puts the holder where there is no such key; tells who it is where there is.
std::string stand_request(std::string_view key, std::string_view holder, std::uint64_t lease);
struct Write {
  std::string_view key;
  ByteView contents;
  Revision revision = 0;        // that the key is to have
  std::string_view leader_key;  // that is to be there
  Revision leader = 0;          // since
};
std::string write_request(const Write& write);

// What answers of status 200 say.
Result<std::string> token_of(std::string_view answer);
Result<Lease> lease_of(std::string_view answer);
// kNotFound: the lease is over.
Status kept(std::string_view answer);
Result<Stored> stored_of(std::string_view answer, std::string_view key);
Result<LeaderEntry> leader_of(std::string_view answer, std::string_view key);
Result<LeaderEntry> stand_result(std::string_view answer, std::string_view key, std::string_view holder,
                                 std::uint64_t lease);
Result<WriteResult> write_result(std::string_view answer, const Write& write);
// Of a member's own status: what is wrong with it; empty: nothing.
Result<std::string> trouble_of(std::string_view answer);

// Another status: kInvalid, kNotFound, kDenied, kTooLarge, kNoSpace: it is refused, and not done. kStale: the
// token is no good any more. kUnavailable: it may have been done.
Error refusal_of(long status, std::string_view answer);

}  // namespace slice::manager::etcd

#endif  // SLICE_CONTROL_MANAGER_ETCD_MESSAGES_H
