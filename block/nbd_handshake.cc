#include "block/nbd_handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace slice::block {
namespace {

using nbd::Option;
using nbd::OptionReply;

NbdHandshake::Answer short_answer(Option to, OptionReply type, std::string_view text = {},
                                  std::optional<NbdRefusal> refused = {}) {
  NbdHandshake::Answer answer{.refused = refused};
  nbd::encode_option_reply(answer.bytes, to, type, text);
  return answer;
}

NbdHandshake::Answer invalid_option(Option to, std::string_view text) {
  return short_answer(to, OptionReply::kInvalid, text, NbdRefusal::kMalformed);
}

// Nothing can be said to the client.
NbdHandshake::Answer ended_handshake(NbdRefusal why, std::string told = {}) {
  return {.next = NbdHandshake::Next::kEnd, .refused = why, .told = std::move(told)};
}

NbdRefusal refusal_of(const Error& error) {
  return error.code == Errc::kNotFound ? NbdRefusal::kUnknownExport : NbdRefusal::kCannotOpen;
}

// Why it cannot be opened is for this side's log.
NbdHandshake::Answer not_open(Option to, const Error& error) {
  OptionReply type = OptionReply::kPolicy;
  std::string_view text = "the export cannot be opened";
  if (error.code == Errc::kNotFound) {
    type = OptionReply::kUnknownExport;
    text = "there is no export of this name";
  } else if (error.code == Errc::kUnavailable || error.code == Errc::kTimedOut) {
    type = OptionReply::kShutdown;
    text = "the export cannot be opened now";
  }
  NbdHandshake::Answer answer = short_answer(to, type, text, refusal_of(error));
  answer.told = error.message;
  return answer;
}

}  // namespace

bool NbdHandshake::take_flags(std::uint32_t flags) {
  zeroes_ = (flags & nbd::kNoZeroes) == 0;
  return (flags & nbd::kFixedNewstyle) != 0 && (flags & ~std::uint32_t{kFlags}) == 0;
}

void NbdHandshake::tls_began() {
  over_tls_ = true;
  structured_ = false;
  context_of_.clear();
  name_.clear();
  device_.reset();
}

std::string NbdHandshake::resolve(std::string_view name) const {
  if (!name.empty()) return std::string(name);
  const std::vector<std::string> names = devices_.names();
  return names.size() == 1 ? names.front() : std::string();
}

// A device that is open already stays so: NBD_OPT_INFO is followed by NBD_OPT_GO.
Task<Status> NbdHandshake::open(std::string_view name) {
  std::string wanted = resolve(name);
  if (device_ != nullptr && wanted == name_) co_return Status();
  device_.reset();
  name_ = std::move(wanted);
  if (name_.empty()) co_return fail(Errc::kNotFound, "no export is the only one");
  auto opened = co_await devices_.open(name_);
  if (!opened) co_return fail(opened.error(), fmt::format("'{}'", short_name(name_)));
  device_ = std::move(*opened);
  co_return Status();
}

nbd::ExportInfo NbdHandshake::info() const {
  using namespace nbd;  // NOLINT(google-build-using-namespace)
  unsigned flags = kHasFlags | kSendFlush | kSendFua | kSendTrim | kSendWriteZeroes | kCanMultiConn;
  if (structured_) flags |= kSendDf;
  return {.size = device_->size(), .flags = static_cast<std::uint16_t>(flags)};
}

Task<NbdHandshake::Answer> NbdHandshake::answer(Option option, Buffer data) {
  if (only_tls() && option != Option::kStartTls && option != Option::kAbort) {
    if (option == Option::kExportName) co_return ended_handshake(NbdRefusal::kTls);
    co_return short_answer(option, OptionReply::kTlsRequired, "this server serves over TLS alone",
                           NbdRefusal::kTls);
  }
  switch (option) {
    case Option::kExportName:
      co_return co_await export_name(std::move(data));
    case Option::kInfo:
    case Option::kGo:
      co_return co_await export_request(option, std::move(data));
    case Option::kAbort: {
      Answer last = short_answer(option, OptionReply::kAck);
      last.next = Next::kEnd;
      co_return last;
    }
    case Option::kList:
      co_return list(data.view());
    case Option::kStartTls:
      co_return start_tls(data.view());
    case Option::kStructuredReply:
      co_return begin_structured(data.view());
    case Option::kListMetaContext:
    case Option::kSetMetaContext:
      co_return co_await meta_contexts(option, std::move(data));
  }
  co_return short_answer(option, OptionReply::kUnsupported);
}

Task<NbdHandshake::Answer> NbdHandshake::export_name(Buffer data) {
  if (data.size() > nbd::kLongestName) co_return ended_handshake(NbdRefusal::kUnknownExport);
  const Status opened = co_await open(as_text(data.view()));
  if (!opened) co_return ended_handshake(refusal_of(opened.error()), opened.error().message);
  Answer answer{.next = Next::kTransmission};
  nbd::encode_export_name_reply(answer.bytes, info(), zeroes_);
  co_return answer;
}

Task<NbdHandshake::Answer> NbdHandshake::export_request(Option option, Buffer data) {
  const auto request = nbd::decode_export_request(data.view());
  if (!request && request.error().code == Errc::kTooLarge) {
    co_return short_answer(option, OptionReply::kUnknownExport, "no export has so long a name",
                           NbdRefusal::kUnknownExport);
  }
  if (!request) co_return invalid_option(option, "malformed");
  const Status opened = co_await open(request->name);
  if (!opened) co_return not_open(option, opened.error());
  Answer answer;
  nbd::encode_info_reply(answer.bytes, option, info());
  nbd::encode_info_reply(answer.bytes, option, nbd::BlockSizes{.most = settings_.longest});
  if (std::ranges::find(request->wanted, nbd::Info::kName) != request->wanted.end())
    nbd::encode_info_reply(answer.bytes, option, name_);
  nbd::encode_option_reply(answer.bytes, option, OptionReply::kAck);
  if (option == Option::kGo) answer.next = Next::kTransmission;
  co_return answer;
}

NbdHandshake::Answer NbdHandshake::list(ByteView data) const {
  if (!data.empty()) return invalid_option(Option::kList, "NBD_OPT_LIST has no data");
  Answer answer;
  for (const std::string& name : devices_.names()) nbd::encode_server_reply(answer.bytes, name);
  nbd::encode_option_reply(answer.bytes, Option::kList, OptionReply::kAck);
  return answer;
}

// NBD_OPT_LIST_META_CONTEXT asks by no query, or by a name space, as well; what the last
// NBD_OPT_SET_META_CONTEXT has chosen counts.
Task<NbdHandshake::Answer> NbdHandshake::meta_contexts(Option option, Buffer data) {
  const bool sets = option == Option::kSetMetaContext;
  if (sets) context_of_.clear();
  const auto request = nbd::decode_meta_context_request(data.view());
  if (!request) co_return invalid_option(option, "malformed");
  if (!structured_) co_return invalid_option(option, "structured replies have to be agreed upon first");
  const Status opened = co_await open(request->name);
  if (!opened) co_return not_open(option, opened.error());
  const auto fits = [&](std::string_view query) {
    return query == nbd::kAllocation || (!sets && query == "base:");
  };
  const bool asked = std::ranges::any_of(request->queries, fits) || (!sets && request->queries.empty());
  Answer answer;
  if (asked && device_->knows_holes()) {
    nbd::encode_context_reply(answer.bytes, option);
    if (sets) context_of_ = name_;
  }
  nbd::encode_option_reply(answer.bytes, option, OptionReply::kAck);
  co_return answer;
}

NbdHandshake::Answer NbdHandshake::start_tls(ByteView data) const {
  if (!data.empty()) return invalid_option(Option::kStartTls, "NBD_OPT_STARTTLS has no data");
  if (over_tls_) return invalid_option(Option::kStartTls, "this is TLS already");
  if (!settings_.offers_tls) {
    return short_answer(Option::kStartTls, OptionReply::kPolicy, "this server has no certificate",
                        NbdRefusal::kTls);
  }
  Answer answer = short_answer(Option::kStartTls, OptionReply::kAck);
  answer.next = Next::kTls;
  return answer;
}

NbdHandshake::Answer NbdHandshake::begin_structured(ByteView data) {
  if (!data.empty()) return invalid_option(Option::kStructuredReply, "NBD_OPT_STRUCTURED_REPLY has no data");
  if (structured_) return invalid_option(Option::kStructuredReply, "it was agreed upon before");
  structured_ = true;
  return short_answer(Option::kStructuredReply, OptionReply::kAck);
}

}  // namespace slice::block
