// AuthorityService: the authority program (wire/authority.h): attributes for data servers and proxies, and
// what they tell of writes. One loop.
#ifndef SLICE_DIRSERVER_AUTHORITY_SERVICE_H
#define SLICE_DIRSERVER_AUTHORITY_SERVICE_H

#include "dirserver/volume.h"
#include "rpc/dispatcher.h"
#include "wire/authority.h"

namespace slice::dirserver {

class AuthorityService : public rpc::Program {
 public:
  explicit AuthorityService(Volume& volume);

  std::uint32_t number() const override { return wire::kAuthorityProgram; }
  std::uint32_t version() const override { return wire::kInternalVersion; }
  Task<rpc::Outcome> handle(const rpc::Call& call, rpc::XdrWriter& results) override;

 private:
  Task<wire::FetchResult> fetch(const wire::FetchArgs& args);
  Task<wire::MergeResult> merge_all(const wire::MergeArgs& args);
  wire::FetchResult merge(Transaction& transaction, const Result<routing::FileHandle>& file,
                          std::uint32_t teller, const wire::FileMerge& merge);
  Task<wire::PolicyResult> policy(const wire::PolicyArgs& args);
  // Commits, and waits until what the transaction read and changed is durable; kOk, or why it is not.
  Task<nfs3::Status> finish(Transaction& transaction);

  Volume& volume_;
  Counter& fetches_;
  Counter& merges_;
  Counter &old_merges_, &refused_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_AUTHORITY_SERVICE_H
