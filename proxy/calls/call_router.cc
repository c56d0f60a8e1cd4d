#include "proxy/calls/call_router.h"

#include <algorithm>

#include "proxy/calls/plain_call.h"
#include "proxy/calls/read_call.h"
#include "proxy/calls/write_call.h"
#include "routing/place.h"
#include "rpc/message.h"
#include "service/access.h"
#include "wire/nfs3.h"

namespace slice::proxy {
namespace {

constexpr std::size_t kReadArguments = 4 + SLICE_HANDLE_SIZE + 12;
constexpr std::size_t kWriteArguments = 4 + SLICE_HANDLE_SIZE + 20;

// Of a call that a proxy on the client's own host passes on, whose call it is. What is no such verifier is as
// good as none: the client's calls over this connection are its own in any case.
void take_client_verifier(const slice_request& request, const std::uint8_t* end, Origin& origin) {
  const std::uint8_t* at = request.credential + rpc::xdr_padded(request.credential_length);
  if (request.arguments > end || request.arguments - at != SLICE_AUTH_HEADER + rpc::kClientVerifierSize)
    return;
  if (load_be<std::uint32_t>(at) != rpc::kAuthClient) return;
  auto verifier = rpc::decode_client_verifier({at + SLICE_AUTH_HEADER, rpc::kClientVerifierSize});
  if (verifier) rpc::apply(*verifier, origin.client, origin.xid);
}

CallFacts facts_of(const Services& services, const Client& client, const slice_request& request,
                   ByteView head) {
  const std::uint8_t* end = head.data() + head.size();
  CallFacts facts;
  facts.asked_ms = services.cache.now_ms();
  facts.origin.client = client.endpoint();
  facts.origin.security = client.security();
  facts.origin.xid = facts.reply_xid = Xid{request.xid};
  take_client_verifier(request, end, facts.origin);
  facts.origin.credential_flavor = request.credential_flavor;
  facts.origin.credential.append({request.credential, request.credential_length});
  facts.procedure = request.procedure;
  facts.fileid = FileId{request.fileid};
  facts.directory_site = request.directory_site;
  facts.handle_flags = request.handle_flags;
  facts.stripe_shift = request.stripe_shift;
  facts.offset = request.offset;
  facts.count = request.count;
  facts.stable = request.stable;
  if (request.handle != nullptr) std::memcpy(facts.handle.data(), request.handle, SLICE_HANDLE_SIZE);
  return facts;
}

}  // namespace

bool CallRouter::answer(Client& client, const slice_request& request, std::uint32_t outcome, ByteView head) {
  if (head.size() < 4) return false;
  Xid xid{load_be<std::uint32_t>(head.data())};
  rpc::XdrWriter out;
  out.u32(0);
  switch (outcome) {
    case SLICE_OUTCOME_ROUTED_NULL:
      rpc::encode_success(out, xid);
      break;
    case SLICE_OUTCOME_RPC_VERSION:
      rpc::encode_rpc_mismatch(out, xid);
      break;
    case SLICE_OUTCOME_BAD_AUTH_LENGTH:
      rpc::encode_auth_error(out, xid, rpc::AuthStat::kBadCredential);
      break;
    case SLICE_OUTCOME_OTHER_PROGRAM:
      rpc::encode_error(out, xid, rpc::AcceptStat::kProgramUnavailable);
      break;
    case SLICE_OUTCOME_OTHER_VERSION:
      rpc::encode_error(out, xid, rpc::AcceptStat::kProgramMismatch, nfs3::kVersion, nfs3::kVersion);
      break;
    case SLICE_OUTCOME_BAD_PROCEDURE:
      rpc::encode_error(out, xid, rpc::AcceptStat::kProcedureUnavailable);
      break;
    case SLICE_OUTCOME_BAD_HANDLE: {
      const std::uint8_t* p = request.arguments;
      bool garbage =
          p == nullptr || head.data() + head.size() - p < 4 || load_be<std::uint32_t>(p) > nfs3::kMaxHandle;
      if (garbage) {
        rpc::encode_error(out, xid, rpc::AcceptStat::kGarbageArguments);
        break;
      }
      rpc::encode_success(out, xid);
      nfs3::encode_failure(out, static_cast<nfs3::Procedure>(request.procedure), nfs3::Status::kBadHandle);
      break;
    }
    case SLICE_OUTCOME_TRUNCATED:
      if (request.arguments == nullptr) return false;
      rpc::encode_error(out, xid, rpc::AcceptStat::kGarbageArguments);
      break;
    default:
      return false;
  }
  answer_with(services_, client, out);
  return true;
}

// RFC 9289 section 4.1: NULL with AUTH_TLS asks for TLS. Where there is none the answer is that to any other
// NULL, by which the client knows.
bool CallRouter::answer_tls_wish(Client& client, const slice_request& request) {
  const bool is_wish = request.procedure == SLICE_NFS_NULL && request.credential_length == 0;
  const bool is_late = client.security().transport != TransportSecurity::kNone;
  services_.count(SLICE_OUTCOME_ROUTED_NULL);
  rpc::XdrWriter out;
  out.u32(0);
  if (!is_wish || is_late) {
    rpc::encode_auth_error(out, Xid{request.xid}, rpc::AuthStat::kBadCredential);
    answer_with(services_, client, out);
    return true;
  }
  const bool begins = client.may_begin_tls();
  begins ? rpc::encode_starttls(out, Xid{request.xid}) : rpc::encode_success(out, Xid{request.xid});
  answer_with(services_, client, out);
  if (begins) client.begin_tls();
  return true;
}

bool CallRouter::take(Client& client, const BufferChain& message, std::uint32_t largest_transfer) {
  std::uint8_t scratch[kHeadBytes];
  ByteView head = message.head(kHeadBytes, scratch);
  if (head.empty()) return false;
  if (SecuredCalls::is_one(head)) return secured_.take(client, message, head, largest_transfer);
  slice_request request{};
  std::uint32_t outcome =
      slice_parse_call(services_.tables.config, head.data(), head.data() + head.size(), &request);
  if (outcome != 0 && slice_is_name_trouble(outcome) == 0) {
    services_.count(outcome);
    return answer(client, request, outcome, head);
  }
  if (request.credential_flavor == rpc::kAuthTls) return answer_tls_wish(client, request);
  if (request.procedure == SLICE_NFS_NULL) {
    services_.count(SLICE_OUTCOME_ROUTED_NULL);
    return answer(client, request, SLICE_OUTCOME_ROUTED_NULL, head);
  }
  CallFacts facts = facts_of(services_, client, request, head);
  auto arguments_at = static_cast<std::size_t>(request.arguments - head.data());
  if (request.procedure == SLICE_NFS_READ && message.size() == arguments_at + kReadArguments) {
    facts.count = std::min(facts.count, largest_transfer);
    auto* call = new ReadCall(services_, client, std::move(facts));
    services_.count(SLICE_OUTCOME_ROUTED_READ);
    call->start();
    return true;
  }
  if (request.procedure == SLICE_NFS_WRITE && write_is_sound(request, head, message.size())) {
    auto* call = new WriteCall(services_, client, std::move(facts));
    services_.count(SLICE_OUTCOME_ROUTED_WRITE);
    call->start(arguments_at + kWriteArguments, message.size() == arguments_at + kWriteArguments);
    for (const BufferRef& slice : message.slices()) call->on_request_piece(slice);
    return true;
  }
  forward(client, std::move(facts), request, head, message, largest_transfer);
  return true;
}

Call* CallRouter::begin(Client& client, ByteView head, std::size_t total) {
  if (SecuredCalls::is_one(head)) return nullptr;
  slice_request request{};
  std::uint32_t outcome =
      slice_parse_call(services_.tables.config, head.data(), head.data() + head.size(), &request);
  if (outcome != 0 || request.procedure != SLICE_NFS_WRITE || !write_is_sound(request, head, total)) {
    return nullptr;
  }
  auto* call = new WriteCall(services_, client, facts_of(services_, client, request, head));
  const auto data_at = static_cast<std::size_t>(request.arguments - head.data()) + kWriteArguments;
  call->start(data_at, total == data_at);
  services_.count(SLICE_OUTCOME_ROUTED_WRITE);
  return call;
}

std::optional<Buffer> CallRouter::refuse(const Client& client, ByteView head, std::size_t total) {
  if (SecuredCalls::is_one(head)) {
    std::optional<Buffer> refusal = secured_.refuse(client, head);
    if (refusal) refused_.add();
    return refusal;
  }
  slice_request request{};
  std::uint32_t outcome =
      slice_parse_call(services_.tables.config, head.data(), head.data() + head.size(), &request);
  if (outcome != 0) return std::nullopt;  // answered by take()
  bool sound = request.procedure == SLICE_NFS_WRITE && write_is_sound(request, head, total);
  nfs3::Status status = nfs3::Status::kOk;
  auto note = [&](rpc::Refused why) {
    refusals_.note(why, client.endpoint(), "a record of {} bytes, {} of file {:#x}", total,
                   nfs3::procedure_name(request.procedure), request.fileid);
  };
  const bool may_judge = !services_.tables.outside();  // else it knows neither exports nor the handles' key
  // A tree that the client made up is of no handle that the ensemble made.
  const TreeId tree{slice_be16(request.handle + SLICE_HANDLE_AT_TREE)};
  const ExportConfig* entry = settings_.now().export_for(tree, client.endpoint().address);
  const auto stranger = service::find_stranger(entry, client.endpoint(), client.security());
  if (may_judge && stranger) {
    note(service::refused(*stranger));
    status = nfs3::Status::kAcces;
  } else if (may_judge && sound && !handles_.open({request.handle, SLICE_HANDLE_SIZE})) {
    note(rpc::Refused::kHandle);
    status = nfs3::Status::kBadHandle;
  } else if (sound) {
    return std::nullopt;
  }
  refused_.add();
  rpc::XdrWriter out;
  out.u32(0);
  if (sound) {
    rpc::encode_success(out, Xid{request.xid});
    nfs3::encode_failure(out, nfs3::Procedure::kWrite, status);
  } else {
    rpc::encode_error(out, Xid{request.xid}, rpc::AcceptStat::kGarbageArguments);
  }
  return marked(out);
}

std::optional<Buffer> CallRouter::refuse_stranger(ByteView message) const {
  slice_request request{};
  ByteView head = message.first(std::min(message.size(), kHeadBytes));
  std::uint32_t outcome =
      slice_parse_call(services_.tables.config, head.data(), head.data() + head.size(), &request);
  if (outcome != 0 && slice_is_name_trouble(outcome) == 0) return std::nullopt;
  rpc::XdrWriter out;
  out.u32(0);
  rpc::encode_success(out, Xid{request.xid});
  if (request.procedure != SLICE_NFS_NULL) {
    nfs3::encode_failure(out, static_cast<nfs3::Procedure>(request.procedure), nfs3::Status::kAcces);
  }
  return marked(out);
}

bool CallRouter::write_is_sound(const slice_request& request, ByteView head, std::size_t total) const {
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 63;
  auto data_at = static_cast<std::size_t>(request.arguments - head.data()) + kWriteArguments;
  if (data_at > head.size()) return false;
  auto length = load_be<std::uint32_t>(head.data() + data_at - 4);
  const bool makes_hole = length == 0 && services_.encoder.own();
  return (length == request.count || makes_hole) && total == data_at + rpc::xdr_padded(length) &&
         request.stable <= 2 && request.offset < kEnd && request.count <= kEnd - request.offset;
}

void CallRouter::forward(Client& client, CallFacts facts, const slice_request& request, ByteView head,
                         const BufferChain& message, std::uint32_t largest_transfer) {
  std::optional<std::uint64_t> size;
  if (request.procedure == SLICE_NFS_COMMIT) size = services_.cache.size(facts.fileid);
  slice_route route = routing::place_of(*services_.tables.config, request, head.data() + head.size(), size);
  if (services_.passes_on(request)) route.site_class = kByVirtualAddress;
  services_.count(request.procedure);
  std::uint64_t hint = 0;
  if (request.procedure == SLICE_NFS_READ || request.procedure == SLICE_NFS_WRITE ||
      request.procedure == SLICE_NFS_COMMIT) {
    hint = services_.hint(facts.fileid);
  }
  auto arguments_at = static_cast<std::size_t>(request.arguments - head.data());
  Buffer arguments(head.subspan(arguments_at));
  auto stamp = [&](const std::uint8_t* handle, std::uint64_t value) {
    if (handle == nullptr) return;
    store_be(arguments.data() + (handle - request.arguments) + SLICE_HANDLE_AT_HINT, value);
  };
  stamp(request.handle, hint);
  stamp(request.second_handle, 0);
  bool readdir = request.procedure == SLICE_NFS_READDIR || request.procedure == SLICE_NFS_READDIRPLUS;
  if (readdir && facts.count > largest_transfer) {
    // READDIR3args: cookie, cookieverf, count; READDIRPLUS3args: dircount before it.
    std::size_t at = 4 + SLICE_HANDLE_SIZE + 16 + (request.procedure == SLICE_NFS_READDIRPLUS ? 4 : 0);
    store_be(arguments.data() + at, largest_transfer);
  }
  new PlainCall(services_, client, std::move(facts), route, arguments.view(),
                message.sub(head.size(), message.size() - head.size()));
}

}  // namespace slice::proxy
