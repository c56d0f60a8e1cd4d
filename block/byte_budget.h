// ByteBudget: the memory that the data of all connections' requests may take together. Each connection has a
// share that nobody else can take, so that who holds much, since he does not read what he asked for, keeps
// only the rest from others. The rest goes to whoever asks first.
#ifndef SLICE_BLOCK_BYTE_BUDGET_H
#define SLICE_BLOCK_BYTE_BUDGET_H

#include <list>
#include <memory>

#include "common/loop.h"

namespace slice::block {

// One loop, which outlives it.
class ByteBudget {
 public:
  class User {
   public:
    // There may be room for what take() refused: it is to be tried again now.
    virtual void on_room() = 0;
    std::size_t held() const { return held_; }

   protected:
    ~User() = default;

   private:
    friend class ByteBudget;
    std::size_t held_ = 0;
    bool waits_ = false;
  };

  // Half of `bytes` is shared out evenly among `users`.
  ByteBudget(Loop& loop, std::size_t bytes, std::size_t users)
      : loop_(loop), share_(bytes / 2 / users), common_(bytes / 2) {}

  // What one user can have at most, with nobody else there.
  std::size_t most() const { return share_ + common_; }
  // False: not now; the user waits for its turn from then on, unless it leaves.
  bool take(User& user, std::size_t bytes);
  void give_back(User& user, std::size_t bytes);
  // It waits no more. What it holds stays its own.
  void leave(User& user);
  bool waited_for() const { return !waiting_.empty(); }
  // It has what others could take.
  bool holds_common(const User& user) const { return user.held_ > share_; }

 private:
  std::size_t beyond_share(std::size_t held) const { return held > share_ ? held - share_ : 0; }
  void wake_soon();
  void wake();

  Loop& loop_;
  const std::size_t share_, common_;
  std::size_t common_used_ = 0;
  std::list<User*> waiting_;             // first come, first served
  std::shared_ptr<ByteBudget*> waking_;  // set: wake() comes
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_BYTE_BUDGET_H
