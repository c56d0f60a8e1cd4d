// NfsProgram: the NFSv3 program as every server serves it. It does what they share, so that a server writes
// its operations alone:
//   - opens the first handle of the arguments (NFS3ERR_BADHANDLE, NFS3ERR_STALE);
//   - finds who asks, by the exports (NFS3ERR_ACCES), and refuses changes, and COMMIT, over a read-only one
//   (NFS3ERR_ROFS);
//   - checks that this server owns the request's site; a misdirected request is counted, logged, relayed to
//   the
//     owner (service/relay.h) and answered with what the owner answers;
//   - counts calls, failures and time, by procedure (docs/metrics.md);
//   - turns an operation's failure into the failure body of its procedure.
//
//   NfsProgram program(context, wire::Role::kStorage);
//   program.on<nfs3::ReadArgs>(nfs3::Procedure::kRead,
//                              [this](NfsRequest& request, const nfs3::ReadArgs& args, rpc::XdrWriter& out) {
//                                return read(request, args, out);
//                              });
// One loop.
#ifndef SLICE_SERVICE_NFS_PROGRAM_H
#define SLICE_SERVICE_NFS_PROGRAM_H

#include <array>
#include <functional>
#include <utility>
#include <variant>

#include "common/log.h"
#include "rpc/dispatcher.h"
#include "rpc/refusals.h"
#include "service/access.h"
#include "service/client_figures.h"
#include "service/context.h"
#include "service/late_writes.h"
#include "service/relay.h"
#include "service/relayed_changes.h"
#include "service/site_gate.h"
#include "wire/manager.h"
#include "wire/nfs3.h"

namespace slice::service {

// One call, as an operation sees it; lives until the operation ends.
class AuthorityClient;

struct NfsRequest {
  const rpc::Call& call;
  nfs3::Procedure procedure = nfs3::Procedure::kNull;
  routing::FileHandle handle;  // the first of the arguments, opened
  ByteView handle_bytes;       // the same as it came, hint included: 56 bytes within call.arguments
  Identity who;
  std::optional<std::uint32_t> gated_site;  // by which the request may be held, since that may move
  bool* passed_on = nullptr;                // of a WRITE: LateWrites' note of that
  // Set by the operation when it learns them: they go into the failure's body (post_op_attr forms, wcc_data
  // forms).
  nfs3::PostOpAttributes attributes;
  nfs3::WccData wcc;

  // It is about to be passed on to another server.
  void note_passed_on() const {
    if (passed_on != nullptr) *passed_on = true;
  }
};

// What an operation ends with.
class NfsAnswer {
 public:
  // The results are appended, status word included, whatever the status is; `status` is for the counters.
  static NfsAnswer written(nfs3::Status status = nfs3::Status::kOk) { return NfsAnswer(Written{status}); }
  // The same, and the call had no effect: it may come again and be done then.
  static NfsAnswer not_done() { return NfsAnswer(Written{nfs3::Status::kJukebox, false}); }
  // Another server's results of this call, which are appended to this one's. That it was sent too early
  // (wire/layout.h) is for a sender that said when; for others it is a failure like any.
  static NfsAnswer anothers(const rpc::Call& call, ByteView theirs, rpc::XdrWriter& results);
  // No answer at all, since it is not known whether it was done, or a copy of it is in progress: sent again
  // it is known for what it is. Over UDP the client does that, over TCP this server does it for a while.
  static NfsAnswer drop() { return NfsAnswer(Drop{}); }
  // The request's site is held, so the operation has ended before its time, without harm: it runs again when
  // the site is released, here or at its new owner. Of requests with a gated site alone.
  static NfsAnswer again() { return NfsAnswer(Again{}); }
  // The arguments do not decode: GARBAGE_ARGS.
  static NfsAnswer garbage() { return NfsAnswer(Garbage{}); }
  // A failure (not kOk): whatever was appended is taken back and the procedure's failure body written.
  NfsAnswer(nfs3::Status status) : value_(status) {}  // NOLINT(google-explicit-constructor)
  // The same by nfs3::status_of; but kUnavailable, kTimedOut and kMisdirected make the client wait
  // (NFS3ERR_JUKEBOX) and kIo and kCorrupt are logged with their message.
  NfsAnswer(Error error) : value_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  // Nothing: the call may be done again, or for the first time, when it comes again.
  std::optional<nfs3::Status> final_status() const;
  // Whether the operation has appended the results itself.
  bool is_written() const { return std::holds_alternative<Written>(value_); }

 private:
  friend class NfsProgram;
  struct Written {
    nfs3::Status status;
    bool final = true;
  };
  struct Drop {};
  struct Again {};
  struct Garbage {};
  using Value = std::variant<Written, Drop, Again, Garbage, nfs3::Status, Error>;
  explicit NfsAnswer(Value value) : value_(std::move(value)) {}
  bool is_dropped() const { return std::holds_alternative<Drop>(value_); }
  bool runs_again() const { return std::holds_alternative<Again>(value_); }
  Value value_;
};

class NfsProgram : public rpc::Program {
 public:
  using Operation = std::function<Task<NfsAnswer>(NfsRequest& request, rpc::XdrWriter& results)>;
  template <class Args>
  using TypedOperation =
      std::function<Task<NfsAnswer>(NfsRequest& request, const Args& args, rpc::XdrWriter& results)>;

  // `site_class`: the class of the sites that this server owns. `gate`: requests pass it, but those for
  // storage nodes of files with a layout, which do not go by who has a site; none: sites stay where they are.
  // It outlives this.
  NfsProgram(ServiceContext& context, wire::Role site_class, SiteGate* gate = nullptr);

  // Registers the operation of a procedure, before anything is served. Args: what decode_arguments() takes
  // for it (nfs3::HandleView where a handle is all there is); the arguments live until the operation ends. A
  // call of a procedure without operation is a misdirected request.
  template <class Args>
  void on(nfs3::Procedure procedure, TypedOperation<Args> operation) {
    operations_[static_cast<std::size_t>(procedure)] = [operation = std::move(operation)](
                                                           NfsRequest& request, rpc::XdrWriter& results) {
      return decode_and_run<Args>(operation, request, results);
    };
  }
  // Runs around every operation, e.g. a duplicate-request cache: may answer without running it. Default: runs
  // it. What is relayed runs at its owner, and so does the cache. The results' size at entry is where the
  // reply of this operation starts.
  virtual Task<NfsAnswer> around(const Operation& operation, NfsRequest& request, rpc::XdrWriter& results) {
    return operation(request, results);
  }

  // Where the request is to be done: by the routing core's word, or by an override's. Nothing for arguments
  // that the routing core does not take.
  virtual std::optional<routing::Route> place_of(const NfsRequest& request) const;

  LateWrites& late_writes() { return late_writes_; }
  // Of a data server: who is told of a WRITE before its repetition is answered without attributes. Outlives
  // this.
  void set_authority(AuthorityClient& authority) { authority_ = &authority; }

  std::uint32_t number() const override { return nfs3::kProgram; }
  std::uint32_t version() const override { return nfs3::kVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;
  // The program NFSACL, whose procedures are operations like those of NFS.
  rpc::Program& acl() { return acl_; }

 private:
  class AclProgram : public rpc::Program {
   public:
    explicit AclProgram(NfsProgram& nfs) : nfs_(nfs) {}
    std::uint32_t number() const override { return nfs3::kAclProgram; }
    std::uint32_t version() const override { return nfs3::kVersion; }
    Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

   private:
    NfsProgram& nfs_;
  };
  // By its number within Slice.
  Task<rpc::Outcome> serve(const rpc::Call& call, rpc::XdrWriter& results);
  struct Figures {
    Counter* calls;
    Counter* failures;
    Histogram* latency;
  };

  template <class Args>
  static Task<NfsAnswer> decode_and_run(const TypedOperation<Args>& operation, NfsRequest& request,
                                        rpc::XdrWriter& results) {
    Args args{};
    if (!nfs3::decode_arguments(request.call.arguments, args)) co_return NfsAnswer::garbage();
    co_return co_await operation(request, args, results);
  }
  // What stands before the operation; nothing where it may run.
  std::optional<NfsAnswer> admit(NfsRequest& request);
  void refuse(const NfsRequest& request, rpc::Refused why);
  // Of those that this server's gate is for; nothing where the request passes none.
  std::optional<std::uint32_t> gated_site(const NfsRequest& request,
                                          const std::optional<routing::Route>& place) const;
  bool owns(const NfsRequest& request, std::optional<routing::Route> place) const;
  // For what seems to be another server's: nothing where it is ours by newer tables.
  Task<std::optional<NfsAnswer>> redirect(NfsRequest& request, rpc::XdrWriter& results);
  Task<NfsAnswer> relay(const NfsRequest& request, routing::Route place, rpc::XdrWriter& results);
  Task<NfsAnswer> relay_once(const NfsRequest& request, routing::Route place, rpc::XdrWriter& results);
  static bool passed_on_once(const NfsRequest& request);
  // To a copy of a change that was passed on; nothing where it is none.
  Task<std::optional<NfsAnswer>> answer_to_copy(const NfsRequest& request, rpc::XdrWriter& results);
  // As the client has sent it, but for what was answered before.
  Task<NfsAnswer> run_once(NfsRequest& request, rpc::XdrWriter& results);
  Task<NfsAnswer> run(NfsRequest& request, rpc::XdrWriter& results);
  Task<NfsAnswer> run_write_once(NfsRequest& request, rpc::XdrWriter& results);
  // To a WRITE that was carried out, as its first copy was answered.
  Task<NfsAnswer> answer_write_again(const NfsRequest& request, std::string kept, rpc::XdrWriter& results);
  rpc::Outcome finish(const NfsAnswer& answer, const NfsRequest& request, std::size_t start,
                      rpc::XdrWriter& results);

  ServiceContext& context_;
  const SettingsReader settings_;
  wire::Role site_class_;
  SiteGate* gate_;
  std::array<Operation, nfs3::kProcedureCount> operations_;
  std::array<Figures, nfs3::kProcedureCount> figures_;
  ClientFigures clients_;
  Counter& bad_handles_;
  Counter& misdirected_;
  Counter& refused_clients_;
  Counter& repeated_;
  Counter& unreserved_ports_;
  Relay relay_;
  LateWrites late_writes_;
  AuthorityClient* authority_ = nullptr;
  RelayedChanges relayed_changes_;
  AclProgram acl_{*this};
  LogLimiter misdirected_log_{2};
  LogLimiter failure_log_{5};
  rpc::Refusals refusals_;
};

// Bytes of data, or of a listing, that the reply to this request may carry. Over UDP, whether it came to this
// server itself or to a proxy or server that passes it on, all of the reply must fit one datagram.
std::uint32_t largest_transfer(const NfsRequest& request);
// READ and WRITE of something that is no regular file: kIsDir, kInval; kOk for one.
nfs3::Status check_transfer_type(const routing::FileHandle& handle);
// And that it has as many bytes as it says.
nfs3::Status check_write(const routing::FileHandle& handle, const nfs3::WriteArgs& args);

}  // namespace slice::service

#endif  // SLICE_SERVICE_NFS_PROGRAM_H
