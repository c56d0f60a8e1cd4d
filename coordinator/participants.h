// Participants: which servers hold bytes of a file, and calls of their object program that go on until they
// are answered: a participant that does not answer is asked again, as long as it takes. One loop.
#ifndef SLICE_COORDINATOR_PARTICIPANTS_H
#define SLICE_COORDINATOR_PARTICIPANTS_H

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "common/metrics.h"
#include "coordinator/file_gate.h"
#include "routing/copies.h"
#include "service/context.h"
#include "service/internal_call.h"
#include "wire/object.h"

namespace slice::coordinator {

// Adds how far and until when one part of a file was written, by COMMIT's answer, to the same of others.
// False: it has nothing, which is as good as having all of it durable.
bool add_holding(wire::ObjectCommitResult& all, const wire::ObjectCommitResult& part);

class Participants {
 public:
  // Whether an operation on a mirrored file may go on without a server: that is noted durably by then.
  // `silent`: it was asked, for this or for another file, and did not answer; else only if it was noted
  // before.
  using Without = std::function<Task<bool>(routing::FileHandle handle, std::uint32_t server, bool silent)>;
  // Of a mirrored file: the server is away, and a COMMIT needs nothing of it.
  using Committed = std::function<bool(const routing::FileHandle& handle, std::uint32_t server)>;
  Participants(service::ServiceContext& context, FileGate& gate, Without without, Committed committed);

  // Indexes of the servers that may hold bytes of the file: its small-file server (where the volume has a
  // threshold, the file is not mirrored, and no opener asks, whose bytes all lie behind that), and for a
  // striped file every storage server. How far a striped file reaches is not known surely before all of them
  // were asked, since unstable writes are reported late: so none is left out.
  struct Chosen {
    std::vector<std::uint32_t> servers;
    Generation known;  // of the tables that they were found by
  };
  Chosen of(const routing::FileHandle& handle, bool striped) const;

  // In all three: with what other servers answer that the participant names, since sites have moved or are
  // moving from it (wire::Also). `known`: as of() has found the participant. None goes on while the file's
  // site is held: whoever has it then begins anew. COMMIT: until the participant answers anything but
  // JUKEBOX. kNoEnt also where it was done without. kJukebox: it does not go on.
  Task<wire::ObjectCommitResult> commit(std::uint32_t server, routing::FileHandle handle,
                                        Verifier largest_seen, Generation known);
  // TRUNCATE, REMOVE: until the participant has done it. Whatever it answers else is tried again, since the
  // operation is owed. A truncation may be done without, as above; a removal may not. False: it does not go
  // on.
  Task<bool> truncate(std::uint32_t server, routing::FileHandle handle, std::uint64_t size, Epoch epoch,
                      Generation known);
  Task<bool> remove(std::uint32_t server, routing::FileHandle handle, Generation known);

 private:
  // Of a server that is no member any more: that it has nothing, but all who have sites now may.
  template <class R, class Args>
  Task<R> ask(std::uint32_t server, wire::ObjectProcedure procedure, Args args, bool until_done,
              routing::FileHandle handle);
  template <class R>
  R removed(const routing::FileHandle& handle) const;
  // ask(), and those whom the participant names once each. One of them that does not do it: the participant
  // is asked again, since it may have come to nothing with that one.
  template <class R, class Args>
  Task<R> ask_with_others(std::uint32_t server, wire::ObjectProcedure procedure, Args args, bool until_done,
                          routing::FileHandle handle);
  template <class R, class Args>
  Task<Result<R>> ask_once(std::uint32_t server, wire::ObjectProcedure procedure, Args args, bool mirrored);
  void note_retry(std::uint32_t server, wire::ObjectProcedure procedure, FileId file, std::string_view why);

  service::ServiceContext& context_;
  FileGate& gate_;
  Without without_;
  Committed committed_;
  std::set<std::uint32_t> silent_;  // servers that have not answered the last call to them
  Counter& calls_;
  Counter& retries_;
  Counter& others_;
  LogLimiter retry_log_{1};
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_PARTICIPANTS_H
