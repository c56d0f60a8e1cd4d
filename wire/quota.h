// Quotas (common/quota.h) on their way: limits among the settings; what directory servers tell the manager of
// usage, and it them; what an operator changes; and how data servers get room for what they store. The
// procedures are those of the manager program (wire/manager.h), ROOM that of the authority program.
#ifndef SLICE_WIRE_QUOTA_H
#define SLICE_WIRE_QUOTA_H

#include <string>
#include <vector>

#include "common/ids.h"
#include "common/quota.h"
#include "rpc/xdr.h"
#include "wire/nfs3.h"

namespace slice::wire {

// As a part of the settings; at most kMaxQuotas, in order.
void encode_quotas(rpc::XdrWriter& out, const Quotas& quotas);
Quotas decode_quotas(rpc::XdrReader& in);

// What somebody who has a quota has, and the space that data servers were promised beyond it.
struct QuotaFigure {
  QuotaId whose;
  QuotaUsage usage;
  std::uint64_t promised = 0;  // bytes
  bool operator==(const QuotaFigure&) const = default;
};

// QUOTA_REPORT: a directory server tells what is on its sites, and learns what there is on all servers'.
struct QuotaReportArgs {
  std::uint32_t server = 0;
  bool counted = false;  // all of its sites are; else the manager goes by what this server told before
  bool same = false;     // as it told this manager last, so that there are no figures here
  std::vector<QuotaFigure> figures;  // in order; of those alone who have a quota and anything
  std::uint64_t seen = 0;            // version of the sums that it has; 0: none
};
struct QuotaReportResult {
  bool again = false;  // the manager knows no figures of this server: they are to be told whole
  // Of all servers' figures, this one's among them; 0: not every directory server has told its own to this
  // manager, and the sums that the asker has go on to count.
  std::uint64_t version = 0;
  std::vector<QuotaFigure> sums;  // where `version` is not the one that was seen
};

// CHANGE_QUOTA: sets the limits that `fields` names, and leaves the others as they are; or takes the quota
// away.
struct ChangeQuotaArgs {
  enum Field : std::uint32_t { kSpace = 1, kFiles = 2, kGrace = 4, kAll = 7 };
  QuotaId whose;
  bool remove = false;
  std::uint32_t fields = 0;  // none where it is to be removed
  Quota quota;
};
struct ChangeQuotaResult {
  std::string refused;  // why nothing was changed; empty: it is so, durably
  SettingsGeneration generation;
  std::vector<std::string> late;  // living processes that do not know of it yet
};

// QUOTA_USAGE: what there is, of one who has a quota, or of all.
struct QuotaUsageArgs {
  bool all = false;
  QuotaId whose;
};
struct QuotaUsageResult {
  bool known = false;  // every directory server has told its figures; else they may be too small
  struct One {
    QuotaId whose;
    Quota quota;
    QuotaUsage usage;
  };
  std::vector<One> quotas;
};

// ROOM: a data server asks the directory server of a file for room that it may fill for the file's owner,
// group and tree, before they are known to have it. A promise counts until the same server asks for the same
// ones again, or for kPromisedMs.
inline constexpr std::uint32_t kPromisedMs = 3000;
struct RoomArgs {
  std::uint32_t server = 0;
  QuotaOwners owners;
  std::uint64_t held = 0;    // bytes that it has taken in, and told no directory server of
  std::uint64_t needed = 0;  // more, at the least
};
struct RoomResult {
  nfs3::Status status = nfs3::Status::kOk;  // never another; all answers of this program have one
  std::uint64_t promised = 0;  // bytes beyond those that are held; fewer than needed: there is no more
  bool others = false;         // but for what others were promised, there would be
};

void encode(rpc::XdrWriter& out, const QuotaReportArgs& args);
bool decode(ByteView bytes, QuotaReportArgs& out);
void encode(rpc::XdrWriter& out, const QuotaReportResult& result);
bool decode(ByteView bytes, QuotaReportResult& out);
void encode(rpc::XdrWriter& out, const ChangeQuotaArgs& args);
bool decode(ByteView bytes, ChangeQuotaArgs& out);
void encode(rpc::XdrWriter& out, const ChangeQuotaResult& result);
bool decode(ByteView bytes, ChangeQuotaResult& out);
void encode(rpc::XdrWriter& out, const QuotaUsageArgs& args);
bool decode(ByteView bytes, QuotaUsageArgs& out);
void encode(rpc::XdrWriter& out, const QuotaUsageResult& result);
bool decode(ByteView bytes, QuotaUsageResult& out);
void encode(rpc::XdrWriter& out, const RoomArgs& args);
bool decode(ByteView bytes, RoomArgs& out);
void encode(rpc::XdrWriter& out, const RoomResult& result);
bool decode(ByteView bytes, RoomResult& out);

}  // namespace slice::wire

#endif  // SLICE_WIRE_QUOTA_H
