// SimClient: an NFSv3 client of a simulation. It sends each call where a proxy would route it, again and
// again under one xid until it is answered, and notes every call and answer as an Operation.
#ifndef SLICE_TESTS_SIM_CLIENT_H
#define SLICE_TESTS_SIM_CLIENT_H

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "routing/file_handle.h"
#include "tests/sim/ensemble.h"
#include "tests/sim/operation.h"
#include "wire/nfs3_readdir.h"

namespace slice::sim {

// What clients know of objects, and share.
struct KnownObject {
  ObjectId id = kNoObject;
  nfs3::FileType type = nfs3::FileType::kRegular;
  routing::HandleBytes handle{};
};

// The operations of one history, by the instants of one counter.
class History {
 public:
  std::uint64_t instant() { return ++instants_; }
  // Notes a call; answered() completes it.
  std::size_t called(Operation operation);
  Operation& at(std::size_t number) { return operations_[number]; }
  const std::vector<Operation>& operations() const { return operations_; }
  void clear() { operations_.clear(); }
  // Notes that a file is written to, and that it is given a size. One that was both has a size of its own
  // matter: a WRITE that is sent again is carried out again, as NFSv3 has it, also after the file was cut.
  void note_written(ObjectId file) { written_.insert(file); }
  void note_cut(ObjectId file) { cut_.insert(file); }
  // Takes the sizes of files that were both out of all answers. `patched`: by proxies, which put the size
  // that they know into answers that servers gave before: then sizes of files that were written are looks of
  // their own.
  void judge_sizes(bool patched);

 private:
  std::uint64_t instants_ = 0;
  std::vector<Operation> operations_;
  std::set<ObjectId> written_, cut_;
};

class SimClient {
 public:
  SimClient(SimEnsemble& ensemble, History& history, unsigned number);

  // How long the client sends a call again before it gives up: then nobody knows whether it had its effect.
  void set_patience(Duration patience) { patience_ = patience; }

  // Each carries out and notes what `operation` says; the handles are those of its objects.
  Task<Operation> lookup(KnownObject directory, std::string name, bool exact = false);
  Task<Operation> getattr(KnownObject object, bool exact = false);
  Task<Operation> create(KnownObject directory, Operation operation);  // CREATE, MKDIR, SYMLINK by its kind
  Task<Operation> remove(KnownObject directory, Operation operation);  // REMOVE, RMDIR
  Task<Operation> rename(KnownObject from, KnownObject to, Operation operation);
  Task<Operation> link(KnownObject file, KnownObject to, Operation operation);
  Task<Operation> setattr(KnownObject object, Operation operation);
  // A few bytes. `exact`: nothing else goes on, and has not for long.
  Task<Operation> write(KnownObject file, std::uint64_t offset, bool exact = false);
  Task<Operation> commit(KnownObject file);
  // A listing, page by page. `exact`: one operation for all of it; else one for each of `names`, since
  // nothing is promised of what changes meanwhile but that each name is listed or not as it was at some
  // instant.
  struct Listing {
    std::optional<nfs3::Status> status;  // nothing: unanswered
    std::map<std::string, ObjectId> names;
  };
  Task<Listing> list(KnownObject directory, const std::vector<std::string>& names, bool exact);

  // Of everything that answers showed a handle of.
  std::optional<KnownObject> known(ObjectId id) const;
  const std::vector<KnownObject>& learned() const { return learned_; }
  // Forgets all others.
  void keep(const std::vector<KnownObject>& known);

  // What is wrong with answers by themselves: they do not decode, a name is listed twice.
  const std::string& failure() const { return failure_; }

 private:
  template <class Args>
  Task<std::optional<Buffer>> call(nfs3::Procedure procedure, const Args& args);
  Task<std::optional<Buffer>> call_encoded(nfs3::Procedure procedure, Buffer arguments);
  template <class Ok>
  bool decode(const Buffer& results, Operation& operation, Ok& ok);
  void saw(Operation& operation, const nfs3::PostOpAttributes& attributes,
           const std::optional<nfs3::HandleView>& handle);
  Operation end(std::size_t number, Operation operation);
  std::size_t begin(Operation& operation);
  bool add_page(const Buffer& results, bool plus, Listing& listing, std::uint64_t& cookie,
                nfs3::CookieVerifier& verifier);
  void wrong(std::string what);

  SimEnsemble& ensemble_;
  History& history_;
  unsigned number_;
  Random random_;
  ProcessLoop loop_;
  SimSocket socket_;
  std::optional<StreamChannel> stream_;  // of one that calls its proxy by a connection
  Duration patience_ = std::chrono::minutes(10);
  std::vector<KnownObject> learned_;
  std::string failure_;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_CLIENT_H
