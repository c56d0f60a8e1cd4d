// Locker: a process on a client of the lock simulation, and that client's lock manager, which is told of
// locks that were waited for. Its calls come as those that a proxy passes on for it, each again and again
// under one xid.
#ifndef SLICE_TESTS_SIM_LOCKER_H
#define SLICE_TESTS_SIM_LOCKER_H

#include <optional>
#include <string>
#include <vector>

#include "routing/file_handle.h"
#include "tests/sim/ensemble.h"
#include "wire/nlm4.h"

namespace slice::sim {

// Who has what of the files, as clients know it.
class HeldLocks {
 public:
  struct Lock {
    unsigned locker = 0;
    std::size_t file = 0;
    std::uint64_t first = 0, last = 0;
    bool exclusive = false;
  };
  // Empty; else whom it excludes.
  std::string taken(const Lock& lock);
  void given_back(unsigned locker) {
    std::erase_if(held_, [locker](const Lock& each) { return each.locker == locker; });
  }

 private:
  std::vector<Lock> held_;
};

class Locker : public rpc::Program {
 public:
  // All of it outlives the locker.
  Locker(SimEnsemble& ensemble, HeldLocks& held, unsigned number);
  void use(const std::vector<routing::HandleBytes>& files) { files_ = &files; }

  // Takes a lock, has it for a while, and gives it back; or gives up.
  Task<void> step();
  // Whether it can have all of the file, now that nobody else wants it; it gives it back at once.
  Task<bool> can_have(std::size_t file);
  // Whom the server says to have some of it.
  Task<std::string> who_has(std::size_t file);
  std::string failure() const { return failure_; }
  const std::map<std::string, unsigned>& answers() const { return answers_; }

  // The client's lock manager: GRANTED.
  std::uint32_t number() const override { return nlm4::kProgram; }
  std::uint32_t version() const override { return nlm4::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  nlm4::Lock lock_of(const HeldLocks::Lock& lock) const;
  template <class Args>
  Task<nlm4::Status> ask(nlm4::Procedure procedure, const Args& args, std::size_t file);
  // Whether it has it; false: it waits, or is refused, as `status` says.
  Task<nlm4::Status> lock(const HeldLocks::Lock& wanted, bool block);
  // Until it is granted, or the locker gives up.
  Task<bool> wait(const HeldLocks::Lock& wanted);
  void have(const HeldLocks::Lock& lock);
  Task<void> give_back(const HeldLocks::Lock& lock);

  SimEnsemble& ensemble_;
  HeldLocks& held_;
  const unsigned locker_;
  const std::vector<routing::HandleBytes>* files_ = nullptr;
  Random random_;
  Metrics metrics_;
  ProcessLoop loop_;
  rpc::Dispatcher dispatcher_{metrics_};
  SimSocket calls_;    // by which its calls are passed on
  SimSocket manager_;  // where it is told
  std::uint32_t xid_ = 0;
  std::optional<HeldLocks::Lock> waits_for_;
  bool granted_ = false;
  std::map<std::string, unsigned> answers_;
  std::string failure_;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_LOCKER_H
