#include "wire/nfs3.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "wire/nfs3_readdir.h"
#include "wire/testing/codec_checks.h"

namespace slice::nfs3 {
namespace {

using wire_tests::check;

const std::string kHandleText(56, 'h');
ByteView handle() {
  return as_bytes(kHandleText);
}

Attributes attributes() {
  return {.type = FileType::kDirectory,
          .mode = 0755,
          .nlink = 2,
          .uid = 1000,
          .gid = 100,
          .size = 1ull << 40,
          .used = 4096,
          .rdev_major = 6,
          .rdev_minor = 7,
          .fsid = 8,
          .fileid = FileId{0x0001000000000009},
          .atime = {10, 11},
          .mtime = {12, 13},
          .ctime = {14, 999999999}};
}
WccData wcc() {
  return {WccAttributes{5, {1, 2}, {3, 4}}, attributes()};
}
SetAttributes everything() {
  using TimeHow = SetAttributes::TimeHow;
  return {.mode = 0600,
          .uid = 1,
          .gid = 2,
          .size = 3,
          .set_atime = TimeHow::kClientTime,
          .set_mtime = TimeHow::kServerTime,
          .atime = {4, 5}};
}
DirOpArgs where() {
  return {handle(), "name.txt"};
}

template <class Args>
void check_arguments(Args args) {
  check([&](rpc::XdrWriter& out) { encode_arguments(out, args); },
        [&](ByteView bytes) { return decode_arguments(bytes, args); });
}
template <class Ok>
void check_result(Ok ok) {
  check([&](rpc::XdrWriter& out) { encode_result(out, ok); },
        [&](ByteView bytes) {
          rpc::XdrReader in(bytes);
          Status status;
          return decode_result(in, status, ok) && status == Status::kOk;
        });
}
// SETATTR and its like: the same body whatever the status.
template <class Body>
void check_body(Body body) {
  for (Status each : {Status::kOk, Status::kNotSync}) {
    Status status = each;
    check([&](rpc::XdrWriter& out) { encode_result(out, status, body); },
          [&](ByteView bytes) {
            rpc::XdrReader in(bytes);
            return decode_result(in, status, body);
          });
  }
}

TEST(Nfs3Arguments, Codec) {
  check([h = handle()](rpc::XdrWriter& out) { encode_arguments(out, h); },
        [](ByteView bytes) {
          HandleView decoded;
          return decode_arguments(bytes, decoded) && decoded.size() == 56;
        });
  check_arguments(SetattrArgs{handle(), everything(), Time{7, 8}});
  check_arguments(SetattrArgs{handle(), {}, std::nullopt});
  check_arguments(where());
  check_arguments(AccessArgs{handle(), 63});
  check_arguments(ReadArgs{handle(), ~0ull, ~0u});
  check_arguments(WriteArgs{handle(), 5, 56, Stable::kFileSync, handle()});
  check_arguments(WriteArgs{handle(), 5, 0, Stable::kUnstable, {}});
  check_arguments(CreateArgs{where(), CreateMode::kGuarded, everything(), {}});
  check_arguments(CreateArgs{where(), CreateMode::kExclusive, {}, {1, 2, 3, 4, 5, 6, 7, 8}});
  check_arguments(MkdirArgs{where(), everything()});
  check_arguments(SymlinkArgs{where(), {}, "../target"});
  check_arguments(MknodArgs{where(), FileType::kBlock, everything(), 8, 1});
  check_arguments(MknodArgs{where(), FileType::kFifo, everything()});
  check_arguments(MknodArgs{.where = where(), .type = FileType::kRegular});
  check_arguments(RenameArgs{where(), where()});
  check_arguments(LinkArgs{handle(), where()});
  check_arguments(ReaddirArgs{handle(), 9, {1, 2, 3, 4, 5, 6, 7, 8}, 4096});
  check_arguments(ReaddirplusArgs{handle(), 9, {8, 7, 6, 5, 4, 3, 2, 1}, 1024, 8192});
  check_arguments(CommitArgs{handle(), 1, 2});
}

TEST(Nfs3Results, Codec) {
  check_result(GetattrOk{attributes()});
  check_result(LookupOk{handle(), attributes(), attributes()});
  check_result(LookupOk{handle(), std::nullopt, std::nullopt});
  check_result(AccessOk{attributes(), 31});
  check_result(ReadlinkOk{attributes(), "target"});
  check_result(ReadOk{attributes(), 56, true, handle()});
  check_result(WriteOk{wcc(), 10, Stable::kDataSync, Verifier{99}});
  check_result(CreatedOk{handle(), attributes(), wcc()});
  check_result(CreatedOk{std::nullopt, std::nullopt, WccData{}});
  check_result(FsstatOk{attributes(), 1, 2, 3, 4, 5, 6, 7});
  check_result(FsinfoOk{.attributes = attributes()});
  check_result(PathconfOk{.attributes = attributes()});
  check_result(CommitOk{wcc(), Verifier{1}});
  check_body(wcc());
  check_body(RenameResult{wcc(), {}});
  check_body(LinkResult{attributes(), wcc()});
}

TEST(Nfs3Arguments, HandlesAndNamesAreBounded) {
  std::string long_handle(65, 'x');
  rpc::XdrWriter handle_out;
  encode_arguments(handle_out, as_bytes(long_handle));
  HandleView decoded;
  EXPECT_FALSE(decode_arguments(handle_out.view(), decoded));

  for (auto [length, fits] :
       {std::pair<std::size_t, bool>{255, true}, {256, true}, {4096, true}, {4097, false}}) {
    std::string name(length, 'n');
    rpc::XdrWriter out;
    encode_arguments(out, DirOpArgs{handle(), name});
    DirOpArgs args;
    EXPECT_EQ(decode_arguments(out.view(), args), fits) << length;
  }
  std::string target(4096, 't');
  rpc::XdrWriter out;
  encode_arguments(out, SymlinkArgs{where(), {}, target});
  SymlinkArgs link;
  EXPECT_FALSE(decode_arguments(out.view(), link));
}

TEST(Nfs3Arguments, EnumsTakeOnlyTheirValues) {
  // The enum's word, by its place from the end of the arguments.
  auto accepted = [](auto args, std::size_t from_end) {
    std::set<std::uint32_t> values;
    for (std::uint32_t value : {0u, 1u, 2u, 3u, 7u, 8u, 0x80000000u, 0xffffffffu}) {
      rpc::XdrWriter out;
      encode_arguments(out, args);
      out.patch_u32(out.size() - from_end, value);
      auto decoded = args;
      if (decode_arguments(out.view(), decoded)) values.insert(value);
    }
    return values;
  };
  using Values = std::set<std::uint32_t>;
  EXPECT_EQ(accepted(WriteArgs{.file = handle(), .count = 0}, 8), (Values{0, 1, 2}));
  // Type 8 is none; types without a body have bytes left over here.
  EXPECT_EQ(accepted(MknodArgs{.where = where(), .type = FileType::kFifo}, 24 + 4), (Values{7}));
  EXPECT_EQ(accepted(SetattrArgs{.object = handle()}, 4), (Values{0}));       // guard: 1 wants a time
  EXPECT_EQ(accepted(SetattrArgs{.object = handle()}, 8), (Values{0, 1}));    // mtime: 2 wants a time
  EXPECT_EQ(accepted(CreateArgs{.where = where()}, 24 + 4), (Values{0, 1}));  // 2: a verifier, not attributes
}

TEST(Nfs3Arguments, WriteCountRulesOverItsData) {
  WriteArgs args;
  rpc::XdrWriter more;
  encode_arguments(more, WriteArgs{.file = handle(), .count = 57, .data = handle()});
  EXPECT_FALSE(decode_arguments(more.view(), args));
  rpc::XdrWriter less;
  encode_arguments(less, WriteArgs{.file = handle(), .count = 10, .data = handle()});
  ASSERT_TRUE(decode_arguments(less.view(), args));
  EXPECT_EQ(args.data.size(), 10u);
}

TEST(Nfs3Types, BooleansAreZeroOrOne) {
  rpc::XdrWriter out;
  encode(out, PostOpAttributes(attributes()));
  out.patch_u32(0, 2);
  rpc::XdrReader in(out.view());
  PostOpAttributes decoded;
  EXPECT_FALSE(decode(in, decoded));
  EXPECT_FALSE(decoded.has_value());
}

TEST(Nfs3Results, EveryFailureHasItsProceduresForm) {
  // Bytes of a failure without attributes: status, then a FALSE for each optional.
  const std::size_t sizes[kProcedureCount] = {4,  4,  12, 8,  8, 8, 8, 12, 12, 12, 12, 12,
                                              12, 12, 20, 16, 8, 8, 8, 8,  8,  12, 8,  8};
  for (std::uint32_t p = 0; p < kProcedureCount; ++p) {
    rpc::XdrWriter out;
    encode_failure(out, static_cast<Procedure>(p), Status::kStale);
    EXPECT_EQ(out.size(), sizes[p]) << procedure_name(p);
    EXPECT_EQ(load_be<std::uint32_t>(out.view().data()), 70u);
  }
  rpc::XdrWriter read;
  encode_failure(read, Procedure::kRead, Status::kIo, attributes());
  rpc::XdrReader in(read.view());
  Status status;
  ReadOk ok;
  ASSERT_TRUE(decode_result(in, status, ok));
  EXPECT_EQ(status, Status::kIo);
  EXPECT_TRUE(ok.attributes.has_value());
  EXPECT_EQ(procedure_name(17), "READDIRPLUS");
  EXPECT_EQ(procedure_name(22), "GETACL");
  EXPECT_EQ(procedure_name(24), "?");
}

class ReaddirTest : public ::testing::TestWithParam<bool> {
 protected:
  bool plus() const { return GetParam(); }
  DirectoryEntry entry(std::string_view name, std::uint64_t cookie) const {
    DirectoryEntry e{FileId{cookie + 100}, name, cookie, {}, {}};
    if (plus()) {
      e.attributes = attributes();
      e.handle = handle();
    }
    return e;
  }
};

TEST_P(ReaddirTest, WrittenEntriesAreReadBack) {
  rpc::XdrWriter out;
  EntryListWriter writer(out, plus(), attributes(), {1, 2, 3}, {.maxcount = 100000});
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(writer.add(entry(std::string(i + 1, 'n'), i)));
  writer.finish(true);

  rpc::XdrReader in(out.view());
  EntryListReader reader(in, plus());
  EXPECT_EQ(reader.status(), Status::kOk);
  EXPECT_EQ(reader.verifier()[2], 3);
  DirectoryEntry e;
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(reader.next(e));
    EXPECT_EQ(e.name.size(), i + 1);
    EXPECT_EQ(e.cookie, i);
    EXPECT_EQ(e.handle.has_value(), plus());
  }
  EXPECT_FALSE(reader.next(e));
  EXPECT_TRUE(reader.eof());
  EXPECT_TRUE(reader.complete());

  for (std::size_t n = 0; n < out.size(); ++n) {
    Buffer cut(out.view().first(n));
    rpc::XdrReader short_in(cut.view());
    EntryListReader short_reader(short_in, plus());
    while (short_reader.next(e)) {
    }
    EXPECT_FALSE(short_reader.complete()) << n;
  }
}

TEST_P(ReaddirTest, ResultNeverPassesItsLimits) {
  for (std::uint32_t maxcount = 0; maxcount < 2000; maxcount += 36) {
    rpc::XdrWriter out;
    out.u64(0);  // a reply header
    EntryListWriter writer(out, plus(), attributes(), {}, {.maxcount = maxcount});
    std::size_t start = out.size();
    std::uint64_t i = 0;
    while (writer.add(entry("some name", i))) ++i;
    EXPECT_EQ(writer.entries(), i);
    if (i == 0) {
      EXPECT_EQ(out.size(), start) << "a refused entry left bytes";
      continue;
    }
    writer.finish(false);
    EXPECT_LE(out.size() - 8, maxcount);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ReaddirTest, ::testing::Bool());

TEST(Readdirplus, DircountLimitsNamesAlone) {
  rpc::XdrWriter out;
  EntryListWriter writer(out, true, std::nullopt, {}, {.dircount = 70, .maxcount = 100000});
  DirectoryEntry e{FileId{1}, "12345678", 1, {}, {}};  // 28 bytes of fileid, name and cookie
  EXPECT_TRUE(writer.add(e));
  EXPECT_TRUE(writer.add(e));
  EXPECT_FALSE(writer.add(e));
}

TEST(Readdir, AListOf300000EntriesIsReadWithoutRecursion) {
  rpc::XdrWriter out;
  EntryListWriter writer(out, false, std::nullopt, {}, {.maxcount = ~0u});
  for (std::uint64_t i = 0; i < 300'000; ++i) ASSERT_TRUE(writer.add({FileId{i}, "n", i, {}, {}}));
  writer.finish(true);
  rpc::XdrReader in(out.view());
  EntryListReader reader(in, false);
  DirectoryEntry e;
  std::size_t n = 0;
  while (reader.next(e)) ++n;
  EXPECT_EQ(n, 300'000u);
  EXPECT_TRUE(reader.complete());
}

TEST(NfsStatus, EveryErrorHasANumberAndEveryNumberAName) {
  EXPECT_EQ(status_of({Errc::kNoSpace, ""}), Status::kNoSpc);
  EXPECT_EQ(status_of({Errc::kTimedOut, ""}), Status::kJukebox);
  EXPECT_EQ(status_of({Errc::kCorrupt, ""}), Status::kIo);
  EXPECT_EQ(status_of({Errc::kStale, ""}), Status::kStale);
  EXPECT_EQ(status_name(Status::kBadHandle), "NFS3ERR_BADHANDLE");
  for (int code = 0; code <= static_cast<int>(Errc::kTooLarge); ++code) {
    Status status = status_of({static_cast<Errc>(code), ""});
    EXPECT_NE(status, Status::kOk);
    EXPECT_NE(status_name(status), "NFS3ERR_?");
  }
}

}  // namespace
}  // namespace slice::nfs3
