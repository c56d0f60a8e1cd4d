#include "service/internal_program.h"

#include <gtest/gtest.h>

#include <optional>

#include "wire/object.h"

namespace slice::service {
namespace {

using wire::ObjectProcedure;

class InternalProgramTest : public ::testing::Test {
 protected:
  InternalProgramTest()
      : calls_(metrics_.counter("calls_total", "calls of a test")), program_(wire::kObjectProgram, &calls_) {
    program_.on<wire::ObjectRemoveArgs>(ObjectProcedure::kRemove, [](const wire::ObjectRemoveArgs& args) {
      return wire::ObjectStatusResult{args.object.fileid == FileId{7} ? nfs3::Status::kOk
                                                                      : nfs3::Status::kNoEnt};
    });
    program_.on<wire::ObjectTruncateArgs>(
        ObjectProcedure::kTruncate,
        [this](const wire::ObjectTruncateArgs& args) -> Task<wire::ObjectStatusResult> {
          co_await go_on_;
          co_return wire::ObjectStatusResult{args.size == 5 ? nfs3::Status::kFbig : nfs3::Status::kOk};
        });
    program_.on<NoArguments>(ObjectProcedure::kList,
                             [](const NoArguments&, rpc::XdrWriter& results) -> Task<rpc::Outcome> {
                               results.u32(42);
                               co_return rpc::Outcome::kError;
                             });
  }

  template <class Args>
  void call(ObjectProcedure procedure, const Args& args, bool internal = true) {
    rpc::XdrWriter out;
    encode(out, args);
    call_encoded(procedure, out.take(), internal);
  }
  void call_encoded(ObjectProcedure procedure, Buffer arguments, bool internal = true) {
    arguments_ = std::move(arguments);
    call_ = {.procedure = static_cast<std::uint32_t>(procedure), .internal = internal};
    call_.arguments = arguments_.view();
    outcome_.reset();
    results_ = {};
    spawn(run());
  }
  Task<void> run() { outcome_ = co_await program_.handle(call_, results_); }
  nfs3::Status status() const {
    wire::ObjectStatusResult result;
    return decode(results_.view(), result) ? result.status : nfs3::Status::kServerFault;
  }

  Metrics metrics_;
  Counter& calls_;
  InternalProgram program_;
  OneShot<bool> go_on_;
  Buffer arguments_;
  rpc::Call call_;
  rpc::XdrWriter results_;
  std::optional<rpc::Outcome> outcome_;
};

TEST_F(InternalProgramTest, RunsWhatIsRegistered) {
  call(ObjectProcedure::kRemove, wire::ObjectRemoveArgs{.object = {.fileid = FileId{7}}});
  EXPECT_EQ(outcome_, rpc::Outcome::kReply);
  EXPECT_EQ(status(), nfs3::Status::kOk);
  call(ObjectProcedure::kRemove, wire::ObjectRemoveArgs{.object = {.fileid = FileId{8}}});
  EXPECT_EQ(status(), nfs3::Status::kNoEnt);
  EXPECT_EQ(calls_.value(), 2u);
}

TEST_F(InternalProgramTest, ArgumentsLiveUntilTheOperationEnds) {
  call(ObjectProcedure::kTruncate, wire::ObjectTruncateArgs{.object = {.fileid = FileId{7}}, .size = 5});
  EXPECT_FALSE(outcome_);
  go_on_.set(true);
  EXPECT_EQ(outcome_, rpc::Outcome::kReply);
  EXPECT_EQ(status(), nfs3::Status::kFbig);
}

TEST_F(InternalProgramTest, AnOperationMayEndWithoutResults) {
  call(ObjectProcedure::kList, NoArguments{});
  EXPECT_EQ(outcome_, rpc::Outcome::kError);
}

TEST_F(InternalProgramTest, RefusesStrangersAndWhatDoesNotDecode) {
  call(ObjectProcedure::kRemove, wire::ObjectRemoveArgs{.object = {.fileid = FileId{7}}}, false);
  EXPECT_EQ(outcome_, rpc::Outcome::kDenied);
  EXPECT_EQ(calls_.value(), 0u);
  call_encoded(ObjectProcedure::kRemove, Buffer(3));
  EXPECT_EQ(outcome_, rpc::Outcome::kGarbage);
  call_encoded(ObjectProcedure::kList, Buffer(4));
  EXPECT_EQ(outcome_, rpc::Outcome::kGarbage) << "more than no arguments";
  for (std::uint32_t none : {0u, static_cast<std::uint32_t>(ObjectProcedure::kStat), 1000u, ~0u}) {
    call_encoded(static_cast<ObjectProcedure>(none), Buffer());
    EXPECT_EQ(outcome_, rpc::Outcome::kNoProcedure) << none;
  }
  EXPECT_EQ(results_.size(), 0u);
}

}  // namespace
}  // namespace slice::service
