// SiteData: what the servers of one class do with what they have of sites when those move to another server
// (docs/moves.md). One loop.
#ifndef SLICE_SERVICE_SITE_DATA_H
#define SLICE_SERVICE_SITE_DATA_H

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"
#include "wire/moves.h"

namespace slice::service {

// One try to bring sites to another server, at their old owner. It is over as soon as the new one may lack
// anything: then nothing comes of it, and nobody waits for the new owner any more.
class LeavingSites {
 public:
  LeavingSites(Loop& loop, wire::SiteMove move, std::uint64_t attempt)
      : loop_(loop), move_(std::move(move)), attempt_(attempt) {}

  const wire::SiteMove& move() const { return move_; }
  std::uint64_t attempt() const { return attempt_; }
  bool has(std::uint32_t site) const { return move_.has(site); }
  bool live() const { return !over_; }
  void fail(std::string why) {
    if (!std::exchange(over_, true)) trouble_ = std::move(why);
  }
  const std::string& trouble() const { return trouble_; }

  // How fast it may copy; 0 bytes a second: as fast as it goes.
  void set_pace(std::uint64_t bytes_per_second, bool paused) {
    // What was waited for at the pace of before counts no more.
    if (std::exchange(bytes_per_second_, bytes_per_second) != bytes_per_second) next_ = loop_.now();
    paused_ = paused;
  }
  // So many bytes were copied. Waits as long as the pace says. False: it is over.
  Task<bool> copied(std::uint64_t bytes);
  std::uint64_t copied_bytes() const { return copied_; }

 private:
  Loop& loop_;
  const wire::SiteMove move_;
  const std::uint64_t attempt_;
  bool over_ = false, paused_ = false;
  std::string trouble_;
  std::uint64_t bytes_per_second_ = 0, copied_ = 0;
  MonoTime next_{};
};

class SiteData {
 public:
  virtual ~SiteData() = default;

  // Gives back what is here of these sites, which are not this server's, and which nobody writes here;
  // durable when it ends well.
  virtual Task<Status> clear(std::vector<std::uint32_t> sites) = 0;

  // ---- at the new owner ----
  // What comes by this attempt is taken from now on, until close().
  virtual void open(const wire::SiteMove& move, std::uint64_t attempt) = 0;
  // Ends when nothing that came by the move is being written any more.
  virtual Task<void> close(wire::MoveId move) = 0;
  // All that was taken is durable when it ends well.
  virtual Task<Status> sync() = 0;
  // WRITEs that the old owner has answered, if they come again.
  virtual void learn(const std::vector<wire::LateWrite>& writes) = 0;

  // ---- at the old owner ----
  // From now on until leave() every change of the sites goes to the new owner as well before it is answered,
  // or is noted, for copy_rest(). Ends when those that were under way have ended, where that is needed.
  virtual Task<Status> join(std::shared_ptr<LeavingSites> leaving) = 0;
  virtual void leave(const LeavingSites& leaving) = 0;
  // Copies what is here; it ends when the new owner has all of it, but what was noted.
  virtual Task<Status> copy(std::shared_ptr<LeavingSites> leaving) = 0;
  // What copy() left, since it was changed meanwhile: the sites are held, and nobody works for them any more.
  // When it ends well the new owner has all of it, nothing changes here until leave(), and nobody else goes
  // by what this server has said of the sites.
  virtual Task<Status> copy_rest(std::shared_ptr<LeavingSites> /*leaving*/) { co_return Status{}; }
  // Bytes that copy() would copy now.
  virtual Task<Result<std::uint64_t>> count(std::vector<std::uint32_t> sites) = 0;
  virtual std::vector<wire::LateWrite> late_writes(const std::vector<std::uint32_t>& sites) = 0;

  // ---- at both ----
  // Sites have come here, or stay here although they were held: what there is to do for them goes on.
  virtual void go_on() {}
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_SITE_DATA_H
