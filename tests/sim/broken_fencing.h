// Fencing that is broken on purpose: a simulation that does not notice is worth nothing.
#ifndef SLICE_TESTS_SIM_BROKEN_FENCING_H
#define SLICE_TESTS_SIM_BROKEN_FENCING_H

#include <map>

#include "rpc/dispatcher.h"
#include "wire/backing.h"

namespace slice::sim {

enum class BrokenFencing {
  kNot,
  kNodes,     // storage nodes let owners of former epochs go on
  kOwners,    // who had a backing set answers on, whether it is still the owner or not
  kManagers,  // of several managers each that wants to lead does, and changes what they share
};

// The backing program of a node that takes calls of any owner for those of the last that has attached.
class ForgetfulNode : public rpc::Program {
 public:
  // `program` outlives this.
  explicit ForgetfulNode(rpc::Program& program) : program_(program) {}
  std::uint32_t number() const override { return program_.number(); }
  std::uint32_t version() const override { return program_.version(); }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  rpc::Program& program_;
  std::map<std::uint32_t, Buffer> owners_;  // as calls name them; by whose set
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_BROKEN_FENCING_H
