// MembersProgram: a manager that answers MEMBERS with what the test says.
#ifndef SLICE_DIRSERVER_TESTING_MEMBERS_PROGRAM_H
#define SLICE_DIRSERVER_TESTING_MEMBERS_PROGRAM_H

#include "rpc/dispatcher.h"
#include "wire/manager.h"

namespace slice::dirserver::testing {

class MembersProgram : public rpc::Program {
 public:
  std::uint32_t number() const override { return wire::kManagerProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call&, rpc::XdrWriter& results) override {
    ++calls;
    encode(results, members);
    co_return rpc::Outcome::kReply;
  }
  wire::MembersResult members;
  int calls = 0;
};

}  // namespace slice::dirserver::testing

#endif  // SLICE_DIRSERVER_TESTING_MEMBERS_PROGRAM_H
