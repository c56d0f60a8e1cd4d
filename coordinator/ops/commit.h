// COMMIT of a file whose bytes may lie on several servers (RFC 1813 section 3.3.21).
//
// Every participant makes its unstable writes durable; the verifier answered is the largest any of them
// knows, and each of them knows it before the client does; size and mtime are durable at the authority
// before. COMMITs of one file share rounds: one that comes while a round runs is served by the next round.
#ifndef SLICE_COORDINATOR_OPS_COMMIT_H
#define SLICE_COORDINATOR_OPS_COMMIT_H

#include <memory>
#include <unordered_map>
#include <vector>

#include "common/trace.h"
#include "coordinator/intentions.h"
#include "coordinator/participants.h"
#include "service/authority_client.h"
#include "service/nfs_program.h"

namespace slice::coordinator {

class CommitOperation {
 public:
  CommitOperation(service::ServiceContext& context, FileGate& gate, Intentions& intentions,
                  Participants& participants, service::AuthorityClient& authority);

  Task<service::NfsAnswer> run(service::NfsRequest& request, rpc::XdrWriter& results);
  // Fulfils an intention that a crash, or another coordinator, has left.
  Task<void> resume(storage::LogSequence sequence, const Intention& intention);

 private:
  struct Outcome {  // kJukebox: it was given up, since the file's site is held
    nfs3::Status status = nfs3::Status::kOk;
    Verifier verifier;
  };
  struct Waiter {
    OneShot<Outcome> done;
    std::shared_ptr<Trace> trace;  // that has the steps of the round; null: another's, or nobody watches
    MonoTime since;
  };
  struct Rounds {
    routing::FileHandle handle;
    bool striped = false;  // of the next round
    std::vector<Waiter> next;
  };
  // What a part said, by the participant's index.
  struct Part {
    std::uint32_t server = 0;
    wire::ObjectCommitResult result;
  };
  using Parts = std::vector<Part>;

  Task<Outcome> join_round(const routing::FileHandle& handle, bool striped);
  Task<void> run_rounds(FileId file);
  Task<Outcome> run_round(routing::FileHandle handle, bool striped);
  Task<Outcome> run_traced(routing::FileHandle handle, bool striped, std::shared_ptr<Trace> trace);
  Task<Outcome> commit_everywhere(routing::FileHandle handle, Participants::Chosen chosen);
  Task<Part> commit_part(std::uint32_t server, routing::FileHandle handle, Verifier largest_seen,
                         Generation known);
  // Ends with the verifier to answer.
  Task<Verifier> inform_laggards(routing::FileHandle handle, Generation known, Parts& parts);
  Task<Outcome> report(const routing::FileHandle& handle, const Parts& parts);
  Task<void> make_durable(storage::LogSequence sequence);

  // As AuthorityClient does it, for who may leave off: with copies of all that is given.
  Task<Result<service::KnownFile>> fetch(service::Identity who, routing::FileHandle handle,
                                         service::AuthorityClient::Freshness freshness);
  Task<Status> report_once(routing::FileHandle handle, wire::ObjectCommitResult all);

  service::ServiceContext& context_;
  FileGate& gate_;
  Intentions& intentions_;
  Participants& participants_;
  service::AuthorityClient& authority_;
  std::unordered_map<FileId, Rounds> rounds_;
  Counter& single_;
  Counter& several_;
  Counter& informed_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_OPS_COMMIT_H
