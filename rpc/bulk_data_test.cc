#include "rpc/bulk_data.h"

#include <gtest/gtest.h>

#include "rpc/testing/bulk_messages.h"

namespace slice::rpc {
namespace {

using testing::BulkMessage;
using testing::read_answer;
using testing::write_message;

std::optional<std::size_t> before(std::string_view first, std::size_t size) {
  return bytes_before_data(as_bytes(first), size);
}

// However much of it is there.
void expect_found(const BulkMessage& message, std::size_t wanted) {
  for (std::size_t n = 0; n <= message.bytes.size(); ++n) {
    auto found = before(std::string_view(message.bytes).substr(0, n), message.bytes.size());
    if (found) {
      EXPECT_EQ(*found, wanted) << n;
    } else {
      EXPECT_LT(n, message.before_data);
    }
  }
}

TEST(BulkData, OfAWriteAndOfAReadsAnswer) {
  for (std::size_t size : {0u, 1u, 3u, 4u, 1000u}) {
    std::string data(size, 'x');
    for (const BulkMessage& each : {write_message(data), read_answer(data), read_answer(data, false)})
      expect_found(each, each.before_data);
  }
}

TEST(BulkData, OtherMessagesHaveNone) {
  BulkMessage other = write_message(std::string(1000, 'x'), 10);
  expect_found(other, other.bytes.size());
  for (std::size_t word : {2u, 5u, 6u, 7u}) {  // denied, not executed, an error, no boolean
    BulkMessage wrong = read_answer(std::string(1000, 'x'), false);
    wrong.bytes[word * 4 + 3] = 2;
    expect_found(wrong, wrong.bytes.size());
  }
  BulkMessage count = read_answer(std::string(1000, 'x'));
  ++count.bytes[count.before_data - 9];  // of bytes that the answer says it has
  expect_found(count, count.bytes.size());
}

TEST(BulkData, DataReachesToTheEnd) {
  for (BulkMessage each : {write_message(std::string(1000, 'x')), read_answer(std::string(1000, 'x'))}) {
    each.bytes += "more";
    expect_found(each, each.bytes.size());
  }
}

TEST(BulkData, LengthsAreNotTrusted) {
  for (const BulkMessage& each :
       {write_message(std::string(2000, 'x')), read_answer(std::string(2000, 'x'))}) {
    for (std::size_t word = 0; word * 4 < each.before_data; ++word) {
      for (char byte : {'\x7f', '\xff'}) {
        BulkMessage wrong = each;
        for (std::size_t i = 0; i < 4; ++i) wrong.bytes[word * 4 + i] = byte;
        auto found = before(wrong.bytes, wrong.bytes.size());
        ASSERT_TRUE(found);
        EXPECT_LE(*found, wrong.bytes.size());
      }
    }
  }
}

}  // namespace
}  // namespace slice::rpc
