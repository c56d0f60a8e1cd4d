#include "block/nbd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "block/byte_budget.h"
#include "block/nbd_replies.h"
#include "block/nbd_transmission.h"
#include "block/testing/nbd_client.h"
#include "common/manual_loop.h"

namespace slice::block {
namespace {

using nbd::Command;
using nbd::ErrorNumber;
using nbd::Info;
using ::testing::ElementsAre;

template <class Message>
Buffer bytes_of(const Message& message) {
  Buffer out;
  nbd::encode(out, message);
  return out;
}

// Every beginning of a good message is refused, and so is what is longer.
template <class Decode>
void refuses_others_than(const Buffer& good, const Decode& decode) {
  EXPECT_TRUE(decode(good.view()));
  for (std::size_t i = 0; i < good.size(); ++i) EXPECT_FALSE(decode(good.view().first(i))) << i;
  Buffer longer = good.clone();
  longer.extend(1)[0] = 0;
  EXPECT_FALSE(decode(longer.view()));
}

TEST(NbdCodec, AGreetingAsTheDocumentHasIt) {
  Buffer out;
  nbd::encode_greeting(out, nbd::kFixedNewstyle | nbd::kNoZeroes);
  EXPECT_EQ(as_text(out.view()), std::string_view("NBDMAGICIHAVEOPT\0\3", 18));
}

TEST(NbdCodec, RequestsAndReplies) {
  const nbd::Request request{
      .flags = nbd::kFua, .command = Command::kWrite, .cookie = 77, .offset = 1ull << 40, .length = 4096};
  const Buffer bytes = bytes_of(request);
  EXPECT_EQ(to_hex(bytes.view()), "2560951300010001000000000000004d000001000000000000001000");
  const auto again = nbd::decode_request(bytes.view());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->offset, request.offset);
  EXPECT_EQ(again->length, request.length);
  EXPECT_FALSE(nbd::decode_request(bytes.view().first(27)));
  Buffer other = bytes.clone();
  other.data()[3] ^= 1;
  EXPECT_FALSE(nbd::decode_request(other.view()));

  Buffer reply(nbd::kSimpleReplySize);
  nbd::put_simple_reply(reply.data(), {.error = ErrorNumber::kNoSpace, .cookie = 77});
  EXPECT_EQ(to_hex(reply.view()), "674466980000001c000000000000004d");
  EXPECT_EQ(nbd::decode_simple_reply(reply.view())->error, ErrorNumber::kNoSpace);
}

TEST(NbdCodec, Chunks) {
  Buffer data(nbd::kDataChunkSize);
  nbd::put_data_chunk(data.data(), 5, 512, 100);
  EXPECT_EQ(to_hex(data.view()), "668e33ef0001000100000000000000050000006c0000000000000200");
  Buffer none, error;
  nbd::encode_none_chunk(none, 5);
  EXPECT_EQ(to_hex(none.view()), "668e33ef00010000000000000000000500000000");
  nbd::encode_error_chunk(error, 5, ErrorNumber::kIo, "no");
  const auto header = nbd::decode_chunk_header(error.view());
  ASSERT_TRUE(header);
  EXPECT_EQ(header->length, 8u);
  const ByteView payload = error.view().subspan(nbd::kChunkHeaderSize);
  EXPECT_EQ(nbd::decode_error_chunk(payload)->text, "no");
  EXPECT_FALSE(nbd::decode_error_chunk(payload.first(7)));
  EXPECT_FALSE(nbd::decode_error_chunk(as_bytes(std::string_view("\0\0\0\0\0\0", 6)))) << "without an error";
}

TEST(NbdCodec, RequestsForExports) {
  const Buffer bytes = bytes_of(nbd::ExportRequest{"disk", {Info::kName, Info::kBlockSize}});
  const auto request = nbd::decode_export_request(bytes.view());
  ASSERT_TRUE(request);
  EXPECT_EQ(request->name, "disk");
  EXPECT_THAT(request->wanted, ElementsAre(Info::kName, Info::kBlockSize));
  refuses_others_than(bytes, [](ByteView from) { return nbd::decode_export_request(from).has_value(); });

  const Buffer with_nul = bytes_of(nbd::ExportRequest{std::string_view("a\0b", 3), {}});
  EXPECT_EQ(nbd::decode_export_request(with_nul.view()).error().code, Errc::kInvalid);
  const std::string name(nbd::kLongestName + 1, 'x');
  EXPECT_EQ(nbd::decode_export_request(bytes_of(nbd::ExportRequest{name, {}}).view()).error().code,
            Errc::kTooLarge);
}

TEST(NbdCodec, LengthsThatLie) {
  Buffer bytes = bytes_of(nbd::ExportRequest{"disk", {Info::kName}});
  for (const std::uint32_t length : {5u, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0xfffffffcu}) {
    store_be(bytes.data(), length);
    EXPECT_FALSE(nbd::decode_export_request(bytes.view())) << length;
  }
  Buffer meta = bytes_of(nbd::MetaContextRequest{"disk", {"base:allocation"}});
  for (const std::uint32_t count : {0u, 2u, 0xffffffffu}) {
    store_be(meta.data() + 8, count);
    EXPECT_FALSE(nbd::decode_meta_context_request(meta.view())) << count;
  }
}

TEST(NbdCodec, RequestsForMetaContexts) {
  const Buffer bytes = bytes_of(nbd::MetaContextRequest{"disk", {"base:allocation", ""}});
  const auto request = nbd::decode_meta_context_request(bytes.view());
  ASSERT_TRUE(request);
  EXPECT_THAT(request->queries, ElementsAre("base:allocation", ""));
  refuses_others_than(bytes,
                      [](ByteView from) { return nbd::decode_meta_context_request(from).has_value(); });
  EXPECT_TRUE(nbd::decode_meta_context_request(bytes_of(nbd::MetaContextRequest{"", {}}).view()));
}

TEST(NbdCodec, OptionsAndTheirReplies) {
  const Buffer header = bytes_of(nbd::OptionHeader{nbd::Option::kGo, 0xffffffff});
  EXPECT_EQ(nbd::decode_option_header(header.view())->length, 0xffffffffu);
  EXPECT_FALSE(nbd::decode_option_header(header.view().first(15)));
  Buffer reply;
  nbd::encode_option_reply(reply, nbd::Option::kList, nbd::OptionReply::kUnsupported, "why");
  const auto decoded = nbd::decode_option_reply_header(reply.view());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->type, nbd::OptionReply::kUnsupported);
  EXPECT_EQ(decoded->length, 3u);
  Buffer info;
  nbd::encode_info_reply(info, nbd::Option::kGo, nbd::ExportInfo{.size = 512, .flags = 1});
  EXPECT_EQ(to_hex(info.view().subspan(16)), "0000000c000000000000000002000001");
}

TEST(NbdJudge, RangesFlagsAndLengths) {
  const NbdTerms terms{
      .device = std::make_shared<testing::MemoryDevice>(8192), .name = "disk", .longest = 4096};
  NbdTerms structured = terms;
  structured.structured = true;
  const auto verdict = [](const NbdTerms& of, Command command, std::uint64_t offset, std::uint32_t length,
                          unsigned flags = 0) {
    return judge(
        {.flags = static_cast<std::uint16_t>(flags), .command = command, .offset = offset, .length = length},
        of);
  };
  EXPECT_EQ(verdict(terms, Command::kRead, 8192 - 512, 512, nbd::kFua), ErrorNumber::kNone);
  EXPECT_EQ(verdict(terms, Command::kRead, 8192, 0), ErrorNumber::kNone);
  EXPECT_EQ(verdict(terms, Command::kRead, 8192 - 511, 512), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(terms, Command::kRead, 8193, 0), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(terms, Command::kRead, ~0ull, 4096), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(terms, Command::kRead, 0, 4097), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(terms, Command::kRead, 0, 512, nbd::kDf), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(structured, Command::kRead, 0, 512, nbd::kDf), ErrorNumber::kNone);
  EXPECT_EQ(verdict(structured, Command::kRead, 0, 4097, nbd::kDf), ErrorNumber::kOverflow);
  EXPECT_EQ(verdict(terms, Command::kWrite, 8000, 512), ErrorNumber::kNoSpace);
  EXPECT_EQ(verdict(terms, Command::kWrite, 0, 4097), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(terms, Command::kWrite, 0, 512, 1 << 9), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(terms, Command::kWriteZeroes, 0, 8192, nbd::kNoHole | nbd::kFua), ErrorNumber::kNone);
  EXPECT_EQ(verdict(terms, Command::kWriteZeroes, 0, 8193), ErrorNumber::kNoSpace);
  EXPECT_EQ(verdict(terms, Command::kWriteZeroes, 0, 512, nbd::kFastZero), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(terms, Command::kFlush, 0, 0), ErrorNumber::kNone);
  EXPECT_EQ(verdict(terms, Command::kTrim, 0, 8192, nbd::kFua), ErrorNumber::kNone);
  EXPECT_EQ(verdict(terms, Command::kTrim, 0, 8193), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(terms, Command::kTrim, 0, 512, nbd::kNoHole), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(structured, Command::kBlockStatus, 0, 512), ErrorNumber::kInvalid) << "not agreed upon";
  NbdTerms with_status = structured;
  with_status.allocation = true;
  EXPECT_EQ(verdict(with_status, Command::kBlockStatus, 0, 8192, nbd::kReqOne), ErrorNumber::kNone);
  EXPECT_EQ(verdict(with_status, Command::kBlockStatus, 0, 8193), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(with_status, Command::kBlockStatus, 0, 0), ErrorNumber::kInvalid);
  EXPECT_EQ(verdict(terms, Command{99}, 0, 0), ErrorNumber::kInvalid);
}

TEST(NbdJudge, DevicesErrors) {
  EXPECT_EQ(error_number_of({Errc::kNoSpace, ""}), ErrorNumber::kNoSpace);
  EXPECT_EQ(error_number_of({Errc::kQuota, ""}), ErrorNumber::kNoSpace);
  EXPECT_EQ(error_number_of({Errc::kStale, ""}), ErrorNumber::kShutdown);
  EXPECT_EQ(error_number_of({Errc::kUnavailable, ""}), ErrorNumber::kIo);
}

class BudgetUser final : public ByteBudget::User {
 public:
  BudgetUser(ByteBudget& budget, std::size_t wants) : budget_(budget), wants_(wants) { on_room(); }
  void on_room() override { has_ = budget_.take(*this, wants_); }
  bool has() const { return has_; }

 private:
  ByteBudget& budget_;
  std::size_t wants_;
  bool has_ = false;
};

TEST(ByteBudget, ASharePerUserAndTheRestInTurn) {
  ManualLoop loop;
  ByteBudget budget(loop, 2000, 10);  // shares of 100, and 1000
  EXPECT_EQ(budget.most(), 1100u);
  BudgetUser large(budget, 1100);
  EXPECT_TRUE(large.has());
  EXPECT_TRUE(budget.holds_common(large));
  BudgetUser second(budget, 500), third(budget, 101), small(budget, 100);
  EXPECT_FALSE(second.has());
  EXPECT_FALSE(third.has());
  EXPECT_TRUE(small.has());
  EXPECT_FALSE(budget.holds_common(small));
  budget.give_back(large, 100);
  loop.run_ready();
  EXPECT_FALSE(third.has()) << "before its turn";
  budget.give_back(large, 900);
  loop.run_ready();
  EXPECT_TRUE(second.has());
  EXPECT_TRUE(third.has());
  EXPECT_FALSE(budget.waited_for());
}

TEST(ByteBudget, WhoLeavesKeepsNobodyWaiting) {
  ManualLoop loop;
  ByteBudget budget(loop, 2000, 10);
  BudgetUser large(budget, 700);
  BudgetUser second(budget, 1100), third(budget, 200);
  EXPECT_FALSE(third.has());
  budget.leave(second);
  loop.run_ready();
  EXPECT_TRUE(third.has());
}

}  // namespace
}  // namespace slice::block
