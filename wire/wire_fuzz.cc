// Fuzzes every decoder of wire/: the first byte of the input picks the message. What decodes must survive a
// trip through its encoder unchanged.
#include <cstdlib>
#include <string>
#include <vector>

#include "wire/about.h"
#include "wire/address.h"
#include "wire/admin.h"
#include "wire/authority.h"
#include "wire/backing.h"
#include "wire/configuration.h"
#include "wire/coordinator.h"
#include "wire/directory.h"
#include "wire/failover.h"
#include "wire/layout.h"
#include "wire/leader.h"
#include "wire/locks.h"
#include "wire/manager.h"
#include "wire/mount3.h"
#include "wire/nfs3_acl.h"
#include "wire/nfs3_readdir.h"
#include "wire/nlm4.h"
#include "wire/nsm1.h"
#include "wire/object.h"
#include "wire/portmap2.h"
#include "wire/quota.h"
#include "wire/routes.h"
#include "wire/rpcbind4.h"
#include "wire/rquota.h"
#include "wire/scan.h"
#include "wire/settings.h"
#include "wire/share.h"
#include "wire/trace.h"

namespace slice {
namespace {

using Try = void (*)(ByteView);

// Encodings of equal values are equal, so two trips must end in the same bytes.
void must_be_stable(const rpc::XdrWriter& first, const rpc::XdrWriter& second) {
  if (as_text(first.view()) != as_text(second.view())) std::abort();
}

template <class Message>
void message(ByteView input) {
  Message value{}, again{};
  if (!decode(input, value)) return;
  rpc::XdrWriter first, second;
  encode(first, value);
  if (!decode(first.view(), again)) std::abort();
  encode(second, again);
  must_be_stable(first, second);
}

template <class Args>
void arguments(ByteView input) {
  Args value{}, again{};
  if (!nfs3::decode_arguments(input, value)) return;
  rpc::XdrWriter first, second;
  nfs3::encode_arguments(first, value);
  if (!nfs3::decode_arguments(first.view(), again)) std::abort();
  nfs3::encode_arguments(second, again);
  must_be_stable(first, second);
}

template <class Ok>
void result(ByteView input) {
  Ok value{}, again{};
  nfs3::Status status{};
  rpc::XdrReader in(input);
  if (!nfs3::decode_result(in, status, value) || status != nfs3::Status::kOk) return;
  rpc::XdrWriter first, second;
  nfs3::encode_result(first, value);
  rpc::XdrReader back(first.view());
  if (!nfs3::decode_result(back, status, again)) std::abort();
  nfs3::encode_result(second, again);
  must_be_stable(first, second);
}

template <class Body>
void body(ByteView input) {
  Body value{};
  nfs3::Status status{};
  rpc::XdrReader in(input);
  if (!nfs3::decode_result(in, status, value)) return;
  rpc::XdrWriter out;
  nfs3::encode_result(out, status, value);
  if (out.size() != input.size()) std::abort();
}

template <bool kPlus>
void listing(ByteView input) {
  rpc::XdrReader in(input);
  nfs3::EntryListReader list(in, kPlus);
  nfs3::DirectoryEntry entry;
  std::size_t entries = 0;
  while (list.next(entry)) ++entries;
  if (entries > input.size() / 20) std::abort();
  (void)list.complete();
}

void rquota_arguments(ByteView input) {
  for (std::uint32_t version : {rquota::kVersion, rquota::kExtendedVersion}) {
    rquota::Args value, again;
    if (!decode(input, value, version)) continue;
    rpc::XdrWriter first, second;
    encode(first, value, version);
    if (!decode(first.view(), again, version)) std::abort();
    encode(second, again, version);
    must_be_stable(first, second);
  }
}

void text_arguments(ByteView input) {
  std::string_view path;
  std::uint32_t port;
  bool done;
  (void)mount3::decode_path(input, path);
  (void)portmap2::decode_port(input, port);
  (void)portmap2::decode_done(input, done);
}

const std::vector<Try>& tries() {
  using namespace nfs3;
  using namespace wire;
  static const std::vector<Try> all = {arguments<HandleView>,
                                       arguments<SetattrArgs>,
                                       arguments<DirOpArgs>,
                                       arguments<AccessArgs>,
                                       arguments<ReadArgs>,
                                       arguments<WriteArgs>,
                                       arguments<CreateArgs>,
                                       arguments<MkdirArgs>,
                                       arguments<SymlinkArgs>,
                                       arguments<MknodArgs>,
                                       arguments<RenameArgs>,
                                       arguments<LinkArgs>,
                                       arguments<ReaddirArgs>,
                                       arguments<ReaddirplusArgs>,
                                       arguments<CommitArgs>,
                                       arguments<GetaclArgs>,
                                       arguments<SetaclArgs>,
                                       result<GetattrOk>,
                                       result<LookupOk>,
                                       result<AccessOk>,
                                       result<ReadlinkOk>,
                                       result<ReadOk>,
                                       result<WriteOk>,
                                       result<CreatedOk>,
                                       result<FsstatOk>,
                                       result<FsinfoOk>,
                                       result<PathconfOk>,
                                       result<CommitOk>,
                                       result<SetaclOk>,
                                       body<WccData>,
                                       body<RenameResult>,
                                       body<LinkResult>,
                                       listing<false>,
                                       listing<true>,
#define X(Message) message<Message>,
                                       SLICE_WIRE_OBJECT_MESSAGES(X) SLICE_WIRE_MANAGER_MESSAGES(X)
                                           SLICE_WIRE_DIRECTORY_MESSAGES(X) SLICE_WIRE_LAYOUT_MESSAGES(X)
                                               SLICE_WIRE_BACKING_MESSAGES(X) SLICE_WIRE_FAILOVER_MESSAGES(X)
#undef X
                                                   message<FetchArgs>,
                                       message<PolicyArgs>,
                                       message<PolicyResult>,
                                       message<FetchResult>,
                                       message<MergeArgs>,
                                       message<MergeResult>,
                                       message<CoordinatorTruncateArgs>,
                                       message<CoordinatorRemoveArgs>,
                                       message<CoordinatorResult>,
                                       message<MetricsResult>,
                                       message<wire::AboutResult>,
                                       message<MisdirectedArgs>,
                                       message<NewTablesArgs>,
                                       message<ScanArgs>,
                                       message<ScanResult>,
                                       message<SnapshotArgs>,
                                       message<SnapshotResult>,
                                       message<wire::StateResult>,
                                       message<wire::LeaderResult>,
                                       message<mount3::MntResult>,
                                       message<std::vector<mount3::MountEntry>>,
                                       message<std::vector<mount3::ExportEntry>>,
                                       message<portmap2::Mapping>,
                                       message<std::vector<portmap2::Mapping>>,
                                       message<portmap2::CallitArgs>,
                                       message<rpcbind4::Registration>,
                                       message<std::vector<rpcbind4::Registration>>,
                                       message<wire::SettingsResult>,
                                       message<wire::ReloadResult>,
                                       message<wire::QuotaReportArgs>,
                                       message<wire::QuotaReportResult>,
                                       message<wire::ChangeQuotaArgs>,
                                       message<wire::ChangeQuotaResult>,
                                       message<wire::QuotaUsageArgs>,
                                       message<wire::QuotaUsageResult>,
                                       message<wire::RoomArgs>,
                                       message<wire::RoomResult>,
                                       message<rquota::Result>,
                                       rquota_arguments,
                                       message<wire::TraceArgs>,
                                       message<wire::TraceResult>,
                                       message<wire::TopArgs>,
                                       message<wire::TopResult>,
                                       message<wire::ConfigurationResult>,
                                       message<wire::HoldAddressArgs>,
                                       message<wire::HoldAddressResult>,
                                       message<wire::RoutesArgs>,
                                       message<wire::Routes>,
                                       message<wire::ShareClientsArgs>,
                                       message<wire::ShareClientsResult>,
                                       message<nsm1::NotifyArgs>,
#define X(Message) message<wire::Message>,
                                       SLICE_WIRE_LOCKS_MESSAGES(X)
#undef X
#define X(Message) message<nlm4::Message>,
                                           SLICE_WIRE_NLM_MESSAGES(X)
#undef X
                                               text_arguments};
  return all;
}

}  // namespace
}  // namespace slice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const auto& all = slice::tries();
  slice::Buffer exact(slice::ByteView(data + 1, size - 1));
  all[data[0] % all.size()](exact.view());
  return 0;
}
