#include "control/manager/etcd_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace slice::manager::etcd {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// Base64 of "k", "leader", "me 1".
constexpr const char* kKey = "aw==";
constexpr const char* kLeaderKey = "bGVhZGVy";
constexpr const char* kMe = "bWUgMQ==";

std::string kv(const char* key, const char* value, const char* created, const char* changed) {
  return fmt::format(
      R"({{"key":"{}","value":"{}","create_revision":"{}","mod_revision":"{}","version":"1"}})", key, value,
      created, changed);
}
Write write_of_k() {
  return {.key = "k", .contents = as_bytes("new"), .revision = 5, .leader_key = "leader", .leader = 3};
}

TEST(EtcdBase64, IsThatOfTheRfcAndNothingElse) {
  for (const auto& [plain, text] : {std::pair<const char*, const char*>{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(to_base64(as_bytes(plain)), text);
    EXPECT_EQ(from_base64(text).value(), plain);
  }
  std::mt19937 chance(1);
  for (std::size_t length = 0; length < 70; ++length) {
    std::string bytes;
    for (std::size_t i = 0; i < length; ++i) bytes += static_cast<char>(chance());
    EXPECT_EQ(from_base64(to_base64(as_bytes(bytes))).value(), bytes);
  }
  for (const char* bad : {"Z", "Zg", "Zg=", "Zg===", "====", "Z===", "Zh==", "Zm9=", "Zm9v=", "Zg==Zg==",
                          "Zm-v", "Zm9v\n", "Zm 9", "=g=="})
    EXPECT_FALSE(from_base64(bad)) << bad;
}

TEST(EtcdRequests, AreWhatTheGatewayTakes) {
  EXPECT_EQ(Json::parse(grant_request(std::chrono::milliseconds(1500))), (Json{{"TTL", "2"}}));
  EXPECT_EQ(Json::parse(lease_request(18446744073709551615u)), (Json{{"ID", "18446744073709551615"}}));
  EXPECT_EQ(Json::parse(read_request("k")), (Json{{"key", kKey}}));
  EXPECT_EQ(Json::parse(authenticate_request("u\"", "p")), (Json{{"name", "u\""}, {"password", "p"}}));
  const Json stand = Json::parse(stand_request("leader", "me 1", 7));
  EXPECT_EQ(stand["compare"][0]["create_revision"], "0");
  EXPECT_EQ(stand["success"][0]["request_put"], (Json{{"key", kLeaderKey}, {"value", kMe}, {"lease", "7"}}));
  const Json write = Json::parse(write_request(write_of_k()));
  EXPECT_EQ(write["compare"][0],
            (Json{{"key", kKey}, {"target", "MOD"}, {"mod_revision", "5"}, {"result", "EQUAL"}}));
  EXPECT_EQ(write["compare"][1]["target"], "CREATE");
  EXPECT_EQ(write["compare"][1]["create_revision"], "3");
  EXPECT_EQ(write["failure"].size(), 2u);
  Write first = write_of_k();
  first.revision = 0;
  EXPECT_EQ(Json::parse(write_request(first))["compare"][0],
            (Json{{"key", kKey}, {"target", "CREATE"}, {"create_revision", "0"}, {"result", "EQUAL"}}));
}

TEST(EtcdAnswers, AreRead) {
  EXPECT_EQ(token_of(R"({"header":{},"token":"abc.7"})").value(), "abc.7");
  EXPECT_EQ(lease_of(R"({"ID":"7751717621059291141","TTL":"2"})")->id, 7751717621059291141u);
  EXPECT_EQ(lease_of(R"({"ID":"7","TTL":"2"})")->time, std::chrono::seconds(2));
  EXPECT_TRUE(kept(R"({"result":{"ID":"5","TTL":"2"}})"));
  EXPECT_EQ(kept(R"({"result":{"ID":"5"}})").error().code, Errc::kNotFound) << "zero is left out";
  auto none = stored_of(R"({"header":{"revision":"1"}})", "k");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->revision, 0u);
  auto stored = stored_of(
      fmt::format(R"({{"header":{{"revision":"9"}},"kvs":[{}],"count":"1"}})", kv(kKey, "Zm9v", "2", "9")),
      "k");
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->revision, 9u);
  EXPECT_EQ(as_text(stored->contents.view()), "foo");
  auto leader = leader_of(
      fmt::format(R"({{"header":{{"revision":"9"}},"kvs":[{}]}})", kv(kLeaderKey, kMe, "4", "4")), "leader");
  ASSERT_TRUE(leader);
  EXPECT_EQ(leader->holder, "me 1");
  EXPECT_EQ(leader->since, 4u);
  EXPECT_EQ(trouble_of(R"({"leader":"5"})").value(), "");
  EXPECT_EQ(trouble_of(R"({})").value(), "it has no leader");
  EXPECT_EQ(trouble_of(R"({"leader":"5","errors":["NOSPACE"]})").value(), "NOSPACE");
}

TEST(EtcdAnswers, OfTransactionsAreRead) {
  const std::string put = R"({"header":{"revision":"8"},"succeeded":true,"responses":[{"response_put":{}}]})";
  auto mine = stand_result(put, "leader", "me 1", 7);
  ASSERT_TRUE(mine);
  EXPECT_EQ(mine->since, 8u);
  EXPECT_EQ(mine->holder, "me 1");
  auto written = write_result(put, write_of_k());
  ASSERT_TRUE(written);
  EXPECT_TRUE(written->written);
  EXPECT_EQ(written->now.revision, 8u);
  const std::string not_put = fmt::format(
      R"({{"header":{{"revision":"8"}},"responses":[{{"response_range":{{"kvs":[{}]}}}},{{"response_range":{{}}}}]}})",
      kv(kKey, "Zm9v", "2", "6"));
  auto refused = write_result(not_put, write_of_k());
  ASSERT_TRUE(refused);
  EXPECT_FALSE(refused->written);
  EXPECT_EQ(refused->now.revision, 6u);
  EXPECT_EQ(refused->leader.since, 0u);
  auto other = stand_result(
      fmt::format(R"({{"header":{{"revision":"8"}},"responses":[{{"response_range":{{"kvs":[{}]}}}}]}})",
                  kv(kLeaderKey, "b3RoZXIgMg==", "3", "3")),
      "leader", "me 1", 7);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->holder, "other 2");
}

// What no etcd answers: each is an error, and none is taken for an answer that says that nothing is there.
TEST(EtcdAnswers, ThatAreBadAreRefused) {
  const std::string good_kv = kv(kKey, "Zm9v", "2", "9");
  const std::vector<std::string> bad{
      "",
      "{",
      "{}",
      R"({"header":{}})",
      R"({"header":{"revision":"x"}})",
      "null",
      "[]",
      "7",
      "\"kvs\"",
      "{\"kvs\":",
      "\xff\xfe",
      "{\"kvs\":\"\xff\"}",
      R"({"kvs":{}})",
      R"({"kvs":7})",
      R"({"kvs":["x"]})",
      R"({"kvs":[null]})",
      R"({"kvs":[{}]})",
      fmt::format(R"({{"kvs":[{},{}]}})", good_kv, good_kv),
      fmt::format(R"({{"kvs":[{}]}})", kv("eA==", "Zm9v", "2", "9")),  // another key
      fmt::format(R"({{"kvs":[{}]}})", kv("aw=", "Zm9v", "2", "9")),   // no base64
      fmt::format(R"({{"kvs":[{}]}})", kv(kKey, "Zm9", "2", "9")),     // likewise
      fmt::format(R"({{"kvs":[{}]}})", kv(kKey, "Zm9v", "0", "9")),    // never made
      fmt::format(R"({{"kvs":[{}]}})", kv(kKey, "Zm9v", "9", "2")),    // changed before it was made
      fmt::format(R"({{"kvs":[{}]}})", kv(kKey, "Zm9v", "2", "-9")),   // no number
      fmt::format(R"({{"kvs":[{}]}})", kv(kKey, "Zm9v", "2", "")),     // likewise
      fmt::format(R"({{"kvs":[{}]}})", kv(kKey, "Zm9v", "2", "18446744073709551616")),
      R"({"kvs":[{"key":"aw==","create_revision":2.5,"mod_revision":"3"}]})",
      R"({"kvs":[{"key":"aw==","create_revision":true,"mod_revision":"3"}]})",
      R"({"kvs":[{"key":7,"create_revision":"2","mod_revision":"3"}]})",
      R"({"kvs":[{"key":"aw==","value":[1],"create_revision":"2","mod_revision":"3"}]})",
      std::string(100'000, '['),
      fmt::format(
          R"({{"kvs":[{}]}})",
          kv(kKey, to_base64(as_bytes(std::string(Registry::kMaxContents + 1, 'x'))).c_str(), "2", "9"))};
  for (std::string each : bad) {
    if (each.starts_with("{\"kvs\"")) each.insert(1, R"("header":{"revision":"9"},)");
    auto stored = stored_of(each, "k");
    ASSERT_FALSE(stored) << each.substr(0, 200);
    EXPECT_EQ(stored.error().code, Errc::kCorrupt);
    EXPECT_FALSE(leader_of(each, "k")) << each.substr(0, 200);
  }
  const std::vector<std::string> bad_transactions{
      "",
      "{}",
      R"({"succeeded":true})",
      R"({"header":{"revision":"8"},"succeeded":true})",
      R"({"header":{"revision":"8"},"succeeded":"true","responses":[{"response_put":{}}]})",
      R"({"header":{"revision":"8"},"succeeded":1,"responses":[{"response_put":{}}]})",
      R"({"header":{},"succeeded":true,"responses":[{"response_put":{}}]})",
      R"({"header":7,"succeeded":true,"responses":[{"response_put":{}}]})",
      R"({"header":{"revision":"x"},"succeeded":true,"responses":[{"response_put":{}}]})",
      R"({"header":{"revision":"8"},"succeeded":true,"responses":[]})",
      R"({"header":{"revision":"8"},"succeeded":true,"responses":[7]})",
      R"({"header":{"revision":"8"},"succeeded":true,"responses":[{"response_range":{}}]})",
      R"({"header":{"revision":"8"},"succeeded":true,"responses":[{"response_put":{}},{"response_put":{}}]})",
      R"({"header":{"revision":"8"},"responses":[{"response_put":{}},{"response_put":{}}]})",
      R"({"header":{"revision":"8"},"responses":[{"response_range":7},{"response_range":7}]})",
      R"({"header":{"revision":"8"},"responses":{"response_range":{}}})"};
  for (const std::string& each : bad_transactions) {
    EXPECT_FALSE(write_result(each, write_of_k())) << each;
    EXPECT_FALSE(stand_result(each, "k", "me 1", 7)) << each;
  }
  for (const char* each : {"{}", R"({"ID":"0","TTL":"2"})", R"({"ID":"7"})", R"({"ID":[],"TTL":"2"})",
                           R"({"ID":"7","TTL":"999999999999"})", "x"})
    EXPECT_FALSE(lease_of(each)) << each;
  for (const char* each : {"{}", R"({"result":7})", R"({"result":{"TTL":"x"}})", R"({"error":{}})", "x"})
    EXPECT_EQ(kept(each).error().code, Errc::kCorrupt) << each;
  for (const char* each : {"{}", R"({"token":7})", R"({"token":"a b"})", "{\"token\":\"a\\r\\nX: y\"}", "x"})
    EXPECT_FALSE(token_of(each)) << each;
  for (const char* each : {R"({"errors":7})", R"({"errors":[7]})", R"({"leader":"x"})", "x"})
    EXPECT_FALSE(trouble_of(each)) << each;
}

TEST(EtcdAnswers, OfOtherStatusesAreRefusals) {
  auto code = [](long status, const char* text) { return refusal_of(status, text).code; };
  EXPECT_EQ(code(404, R"({"code":5,"message":"etcdserver: requested lease not found"})"), Errc::kNotFound);
  EXPECT_EQ(code(400, R"({"code":3,"message":"etcdserver: request is too large"})"), Errc::kTooLarge);
  EXPECT_EQ(code(400, R"({"code":3,"message":"no"})"), Errc::kInvalid);
  EXPECT_EQ(code(403, R"({"code":7,"message":"etcdserver: permission denied"})"), Errc::kDenied);
  EXPECT_EQ(code(401, R"({"code":16,"message":"etcdserver: invalid auth token"})"), Errc::kStale);
  EXPECT_EQ(code(429, R"({"code":8,"message":"etcdserver: mvcc: database space exceeded"})"), Errc::kNoSpace);
  EXPECT_EQ(code(503, R"({"code":14,"message":"etcdserver: no leader"})"), Errc::kUnavailable);
  EXPECT_EQ(code(500, "<html>"), Errc::kUnavailable);
  EXPECT_EQ(code(500, R"({"code":"three"})"), Errc::kUnavailable);
  EXPECT_THAT(refusal_of(503, R"({"code":14,"message":"a\nb"})").message, HasSubstr("a?b"));
}

}  // namespace
}  // namespace slice::manager::etcd
