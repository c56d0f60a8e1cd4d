#include "control/manager/etcd_messages.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

namespace slice::manager::etcd {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kMaxToken = 4096;   // bytes
constexpr std::size_t kMaxReason = 200;   // of what an answer says, in logs
constexpr std::uint64_t kMaxTtl = 86400;  // seconds

std::string base64(std::string_view text) {
  return to_base64(as_bytes(text));
}

tl::unexpected<Error> bad(std::string_view what) {
  return fail(Errc::kCorrupt, "etcd: an answer whose {}", what);
}

// As a log line shows it.
std::string shown(std::string_view text) {
  std::string out;
  for (unsigned char c : text.substr(0, kMaxReason))
    out += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
  return out;
}

Result<Json> object(std::string_view text) {
  Json parsed = Json::parse(text, nullptr, false);
  if (!parsed.is_object()) return bad(parsed.is_discarded() ? "JSON does not parse" : "JSON is no object");
  return parsed;
}

// The field; null where it was left out.
const Json* field(const Json& of, const char* name) {
  if (!of.is_object()) return nullptr;
  const auto found = of.find(name);
  return found == of.end() || found->is_null() ? nullptr : &*found;
}

// 0 where it was left out.
Result<std::uint64_t> number(const Json& of, const char* name) {
  const Json* value = field(of, name);
  if (value == nullptr) return 0;
  if (value->is_number_unsigned()) return value->get<std::uint64_t>();
  const auto* text = value->get_ptr<const std::string*>();
  if (text == nullptr) return bad(fmt::format("'{}' is no number", name));
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), out);
  if (error != std::errc{} || end != text->data() + text->size() || text->empty())
    return bad(fmt::format("'{}' is no number", name));
  return out;
}

// Empty where it was left out.
Result<std::string> text(const Json& of, const char* name) {
  const Json* value = field(of, name);
  if (value == nullptr) return std::string();
  const auto* found = value->get_ptr<const std::string*>();
  if (found == nullptr) return bad(fmt::format("'{}' is no text", name));
  return *found;
}

Result<std::string> bytes(const Json& of, const char* name) {
  auto encoded = text(of, name);
  if (!encoded) return encoded;
  auto decoded = from_base64(*encoded);
  if (!decoded) return bad(fmt::format("'{}' is no base64", name));
  return decoded;
}

struct KeyValue {
  std::string value;
  Revision created = 0, changed = 0;  // 0: there is no such key
  std::uint64_t lease = 0;
};

// Of the answer to a question for one key.
Result<KeyValue> key_value(const Json& range, std::string_view key) {
  if (!range.is_object()) return bad("range is no object");
  const Json* entries = field(range, "kvs");
  if (entries == nullptr) return KeyValue{};
  if (!entries->is_array() || entries->size() > 1) return bad("'kvs' is no list of one key");
  if (entries->empty()) return KeyValue{};
  const Json& entry = entries->front();
  if (!entry.is_object()) return bad("key is no object");
  auto name = bytes(entry, "key");
  if (!name) return fail(std::move(name).error());
  if (*name != key) return bad(fmt::format("key is '{}', not '{}'", shown(*name), key));
  KeyValue out;
  auto value = bytes(entry, "value");
  auto created = number(entry, "create_revision"), changed = number(entry, "mod_revision"),
       lease = number(entry, "lease");
  if (!value) return fail(std::move(value).error());
  for (const auto* each : {&created, &changed, &lease}) {
    if (!*each) return fail(each->error());
  }
  if (*created == 0 || *changed < *created) return bad("key has no revision");
  if (value->size() > Registry::kMaxContents) return bad("value is too long");
  return KeyValue{.value = std::move(*value), .created = *created, .changed = *changed, .lease = *lease};
}

// The revision that the answer is of. All have one: what has none is not etcd's, whatever it leaves out.
Result<Revision> revision_of(const Json& answer) {
  const Json* header = field(answer, "header");
  if (header == nullptr) return bad("header is missing");
  auto revision = number(*header, "revision");
  if (revision && *revision == 0) return bad("header has no revision");
  return revision;
}

Result<KeyValue> range_answer(std::string_view answer, std::string_view key) {
  auto parsed = object(answer);
  if (!parsed) return fail(std::move(parsed).error());
  if (auto revision = revision_of(*parsed); !revision) return fail(std::move(revision).error());
  return key_value(*parsed, key);
}

LeaderEntry leader_entry(KeyValue entry) {
  if (entry.created == 0) return {};
  return {.holder = std::move(entry.value), .since = entry.created, .lease = entry.lease};
}

// A transaction's: whether its comparisons held, and at which revision; and its responses.
struct Transaction {
  bool succeeded = false;
  Revision revision = 0;
  Json responses;
};
Result<Transaction> transaction(std::string_view answer, std::size_t puts, std::size_t ranges) {
  auto parsed = object(answer);
  if (!parsed) return fail(std::move(parsed).error());
  Transaction out;
  if (const Json* succeeded = field(*parsed, "succeeded")) {
    if (!succeeded->is_boolean()) return bad("'succeeded' is no boolean");
    out.succeeded = succeeded->get<bool>();
  }
  auto revision = revision_of(*parsed);
  if (!revision) return fail(std::move(revision).error());
  out.revision = *revision;
  const Json* responses = field(*parsed, "responses");
  const std::size_t expected = out.succeeded ? puts : ranges;
  if (responses == nullptr || !responses->is_array() || responses->size() != expected)
    return bad(fmt::format("'responses' are not {}", expected));
  const char* kind = out.succeeded ? "response_put" : "response_range";
  for (const Json& each : *responses) {
    if (field(each, kind) == nullptr) return bad(fmt::format("response is no {}", kind));
  }
  out.responses = *responses;
  return out;
}

Json compare_created(std::string_view key, Revision revision) {
  return {{"key", base64(key)},
          {"target", "CREATE"},
          {"create_revision", std::to_string(revision)},
          {"result", "EQUAL"}};
}
Json range_of(std::string_view key) {
  return {{"request_range", {{"key", base64(key)}}}};
}

}  // namespace

std::string to_base64(ByteView bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(bytes.size() - at, 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) group = group << 8 | (i < count ? bytes[at + i] : 0u);
    for (std::size_t i = 0; i < 4; ++i) out += i <= count ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

Result<std::string> from_base64(std::string_view text) {
  static constexpr auto kValues = [] {
    std::array<std::uint8_t, 256> values{};
    values.fill(64);
    for (std::size_t i = 0; i < kDigits.size(); ++i)
      values[static_cast<unsigned char>(kDigits[i])] = static_cast<std::uint8_t>(i);
    return values;
  }();
  const auto wrong = fail(Errc::kCorrupt, "not base64");
  if (text.size() % 4 != 0) return wrong;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::string_view four = text.substr(at, 4);
    std::size_t digits = 4;
    if (at + 4 == text.size()) digits = std::min<std::size_t>(four.find('='), 4);
    if (digits < 2 || four.substr(digits).find_first_not_of('=') != std::string_view::npos) return wrong;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint8_t value = i < digits ? kValues[static_cast<unsigned char>(four[i])] : 0;
      if (value == 64) return wrong;
      group = group << 6 | value;
    }
    for (std::size_t i = 0; i + 1 < digits; ++i) out += static_cast<char>(group >> (16 - 8 * i) & 0xff);
    if (digits < 4 && (group & (0xffffffu >> (8 * (digits - 1)))) != 0) return wrong;  // bits behind its end
  }
  return out;
}

std::string authenticate_request(std::string_view user, std::string_view password) {
  // What is no UTF-8 is no name or password of etcd's.
  return Json{{"name", user}, {"password", password}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string grant_request(Duration time) {
  return Json{{"TTL", std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count())}}.dump();
}
std::string lease_request(std::uint64_t lease) {
  return Json{{"ID", std::to_string(lease)}}.dump();
}
std::string read_request(std::string_view key) {
  return Json{{"key", base64(key)}}.dump();
}
std::string stand_request(std::string_view key, std::string_view holder, std::uint64_t lease) {
  const Json put{
      {"request_put", {{"key", base64(key)}, {"value", base64(holder)}, {"lease", std::to_string(lease)}}}};
  return Json{{"compare", Json::array({compare_created(key, 0)})},
              {"success", Json::array({put})},
              {"failure", Json::array({range_of(key)})}}
      .dump();
}
std::string write_request(const Write& write) {
  Json unchanged = compare_created(write.key, 0);
  if (write.revision != 0) {
    unchanged = {{"key", base64(write.key)},
                 {"target", "MOD"},
                 {"mod_revision", std::to_string(write.revision)},
                 {"result", "EQUAL"}};
  }
  const Json put{{"request_put", {{"key", base64(write.key)}, {"value", to_base64(write.contents)}}}};
  return Json{
      {"compare", Json::array({std::move(unchanged), compare_created(write.leader_key, write.leader)})},
      {"success", Json::array({put})},
      {"failure", Json::array({range_of(write.key), range_of(write.leader_key)})}}
      .dump();
}

Result<std::string> token_of(std::string_view answer) {
  auto parsed = object(answer);
  if (!parsed) return fail(std::move(parsed).error());
  auto token = text(*parsed, "token");
  if (!token) return token;
  const bool plain = std::all_of(token->begin(), token->end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (token->empty() || token->size() > kMaxToken || !plain) return bad("'token' is none");
  return token;
}

Result<Lease> lease_of(std::string_view answer) {
  auto parsed = object(answer);
  if (!parsed) return fail(std::move(parsed).error());
  auto id = number(*parsed, "ID"), seconds = number(*parsed, "TTL");
  if (!id) return fail(std::move(id).error());
  if (!seconds) return fail(std::move(seconds).error());
  if (*id == 0 || *seconds == 0 || *seconds > kMaxTtl) return bad("lease is none");
  return Lease{.id = *id, .time = std::chrono::seconds(*seconds)};
}

Status kept(std::string_view answer) {
  auto parsed = object(answer);
  if (!parsed) return fail(std::move(parsed).error());
  const Json* result = field(*parsed, "result");
  if (result == nullptr || !result->is_object()) return bad("'result' is missing");
  auto seconds = number(*result, "TTL");
  if (!seconds) return fail(std::move(seconds).error());
  if (*seconds == 0) return fail(Errc::kNotFound, "etcd: the lease is over");
  return {};
}

Result<Stored> stored_of(std::string_view answer, std::string_view key) {
  auto entry = range_answer(answer, key);
  if (!entry) return fail(std::move(entry).error());
  return Stored{.contents = Buffer(as_bytes(entry->value)), .revision = entry->changed};
}

Result<LeaderEntry> leader_of(std::string_view answer, std::string_view key) {
  auto entry = range_answer(answer, key);
  if (!entry) return fail(std::move(entry).error());
  return leader_entry(std::move(*entry));
}

Result<LeaderEntry> stand_result(std::string_view answer, std::string_view key, std::string_view holder,
                                 std::uint64_t lease) {
  auto done = transaction(answer, 1, 1);
  if (!done) return fail(std::move(done).error());
  if (done->succeeded)
    return LeaderEntry{.holder = std::string(holder), .since = done->revision, .lease = lease};
  auto entry = key_value(done->responses[0]["response_range"], key);
  if (!entry) return fail(std::move(entry).error());
  if (entry->created == 0) return bad("leader is there, and is not");
  return leader_entry(std::move(*entry));
}

Result<WriteResult> write_result(std::string_view answer, const Write& write) {
  auto done = transaction(answer, 1, 2);
  if (!done) return fail(std::move(done).error());
  if (done->succeeded)
    return WriteResult{.written = true, .now = {.contents = {}, .revision = done->revision}};
  auto entry = key_value(done->responses[0]["response_range"], write.key);
  auto leader = key_value(done->responses[1]["response_range"], write.leader_key);
  if (!entry) return fail(std::move(entry).error());
  if (!leader) return fail(std::move(leader).error());
  return WriteResult{.now = {.contents = Buffer(as_bytes(entry->value)), .revision = entry->changed},
                     .leader = leader_entry(std::move(*leader))};
}

Result<std::string> trouble_of(std::string_view answer) {
  auto parsed = object(answer);
  if (!parsed) return fail(std::move(parsed).error());
  if (const Json* errors = field(*parsed, "errors")) {
    if (!errors->is_array() || errors->empty() || !errors->front().is_string())
      return bad("'errors' are none");
    return shown(errors->front().get<std::string>());
  }
  auto leader = number(*parsed, "leader");
  if (!leader) return fail(std::move(leader).error());
  return std::string(*leader == 0 ? "it has no leader" : "");
}

Error refusal_of(long status, std::string_view answer) {
  std::uint64_t code = 0;
  std::string why = fmt::format("status {}", status);
  if (auto parsed = object(answer)) {
    code = number(*parsed, "code").value_or(0);
    if (auto said = text(*parsed, "message"); said && !said->empty()) why = shown(*said);
  } else if (!answer.empty()) {
    why += ": " + shown(answer);
  }
  // google.rpc.Code.
  constexpr std::uint64_t kInvalidArgument = 3, kNotFound = 5, kPermissionDenied = 7, kResourceExhausted = 8,
                          kFailedPrecondition = 9, kUnauthenticated = 16;
  auto error = [&](Errc errc) { return Error{errc, "etcd: " + why}; };
  switch (code) {
    case kInvalidArgument:
      if (why.find("too large") != std::string::npos) return error(Errc::kTooLarge);
      return error(Errc::kInvalid);
    case kNotFound:
      return error(Errc::kNotFound);
    case kPermissionDenied:
      return error(Errc::kDenied);
    case kFailedPrecondition:
      return error(Errc::kInvalid);
    case kResourceExhausted:
      // Too many requests, too, of which nothing is done either.
      return error(Errc::kNoSpace);
    case kUnauthenticated:
      return error(Errc::kStale);
    default:
      return error(status == 401 ? Errc::kStale : Errc::kUnavailable);
  }
}

}  // namespace slice::manager::etcd
