#include "http/request.h"

#include <gtest/gtest.h>

namespace slice::http {
namespace {

RequestHead read(std::string_view bytes) {
  RequestHead head;
  head.give(bytes);
  return head;
}

TEST(RequestHead, TakesAGet) {
  for (const char* text :
       {"GET /metrics HTTP/1.1\r\nHost: a:10049\r\nAccept: */*\r\n\r\n",
        "GET /metrics?name[]=up HTTP/1.1\r\nhost: a\r\nAccept:\r\n\r\n", "GET /metrics HTTP/1.0\r\n\r\n",
        "GET /metrics HTTP/1.0\n\n",
        "GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET /other HTTP/1.1"}) {
    const RequestHead head = read(text);
    EXPECT_TRUE(head.ended()) << text;
    EXPECT_EQ(head.status(), Status::kOk) << text;
    EXPECT_EQ(head.path(), "/metrics") << text;
  }
}

TEST(RequestHead, ComesByteByByte) {
  const std::string_view text = "GET /-/ready HTTP/1.1\r\nHost: a\r\n\r\n";
  RequestHead head;
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(head.ended()) << i;
    head.give(text.substr(i, 1));
  }
  EXPECT_TRUE(head.ended());
  EXPECT_EQ(head.path(), "/-/ready");
}

TEST(RequestHead, RefusesWhatIsNoGet) {
  struct Bad {
    const char* text;
    Status status;
  };
  for (const Bad& bad : {
           Bad{"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Status::kMethodNotAllowed},
           {"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Status::kMethodNotAllowed},
           {"get /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Status::kMethodNotAllowed},
           {"GET /metrics HTTP/2.0\r\nHost: a\r\n\r\n", Status::kVersionNotSupported},
           {"GET /metrics\r\n\r\n", Status::kBadRequest},
           {"GET  /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Status::kBadRequest},
           {"GET http://a/metrics HTTP/1.1\r\nHost: a\r\n\r\n", Status::kBadRequest},
           {"GET /met\x01rics HTTP/1.1\r\nHost: a\r\n\r\n", Status::kBadRequest},
           {"GET /metrics HTTP/1.1\r\n\r\n", Status::kBadRequest},
           {"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Status::kBadRequest},
           {"GET /metrics HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", Status::kBadRequest},
           {"GET /metrics HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n", Status::kBadRequest},
           {"GET /metrics HTTP/1.1\r\nHost : a\r\n\r\n", Status::kBadRequest},
           {"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n", Status::kBadRequest},
           {"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", Status::kBadRequest},
           {"\r\n\r\n", Status::kBadRequest},
           {"\x16\x03\x01\x02\n\n", Status::kBadRequest},
       }) {
    const RequestHead head = read(bad.text);
    EXPECT_TRUE(head.ended()) << bad.text;
    EXPECT_EQ(head.status(), bad.status) << bad.text;
    EXPECT_EQ(head.path(), "") << bad.text;
  }
}

TEST(RequestHead, KeepsNoMoreThanItsLimit) {
  RequestHead head;
  head.give("GET /metrics HTTP/1.1\r\nHost: a\r\n");
  for (int i = 0; i < 10'000 && !head.ended(); ++i) head.give("X-Some: header\r\n");
  EXPECT_TRUE(head.ended());
  EXPECT_EQ(head.status(), Status::kHeadTooLarge);
  RequestHead at_once;
  at_once.give("GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(at_once.status(), Status::kHeadTooLarge);
}

}  // namespace
}  // namespace slice::http
