// StateStore: where the manager's durable state is, and whether this manager may change it: the seam between
// the manager and its engines: files of its own data directory (file_store.h), which one manager alone has,
// or what several managers share, of whom one leads (shared_store.h). One loop.
#ifndef SLICE_CONTROL_MANAGER_STATE_STORE_H
#define SLICE_CONTROL_MANAGER_STATE_STORE_H

#include <functional>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/result.h"
#include "common/task.h"
#include "wire/leader.h"

namespace slice::manager {

class StateStore {
 public:
  StateStore() = default;
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;
  virtual ~StateStore() = default;

  // What was stored last under the name, by whichever manager. kNotFound: nothing ever was. kCorrupt: its
  // checksum does not fit. kStale: this manager does not lead. kTooLarge, kIo, kUnavailable: it cannot be
  // read now.
  virtual Task<Result<Buffer>> read(std::string name) = 0;
  // Durable when it ends well. kTooLarge: more than is kept, and nothing is changed. Other errors: nothing is
  // changed, or this manager leads no more and whoever does finds it changed or not. Calls for one name must
  // not overlap.
  virtual Task<Status> replace(std::string name, Buffer contents) = 0;

  // A term is a time in which this manager leads: it alone changes what is stored.
  struct Hooks {
    std::function<void()> begun;
    std::function<void()> ended;  // at the latest when another may begin
  };
  // Stands for leader from now on, again after each term that ends. Called once.
  virtual void stand(Hooks hooks) = 0;
  // By the clock of now: false at the latest when another may lead, whether or not `ended` was called yet.
  virtual bool leads() const = 0;
  // Gives up the term, so that another manager can begin one at once; stands no more for `pause`.
  virtual Task<void> resign(Duration pause) = 0;
  // Who leads, as far as is known: a server's name; empty: nobody, or it is not known.
  virtual std::string leader() const = 0;
  // Where what managers share is, and how that is; empty: they share nothing.
  virtual std::vector<wire::StorePlace> places() const { return {}; }
};

}  // namespace slice::manager

#endif  // SLICE_CONTROL_MANAGER_STATE_STORE_H
