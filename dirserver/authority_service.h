// AuthorityService: the authority program (wire/authority.h): attributes for data servers and proxies, and
// what they tell of writes. One loop.
#ifndef SLICE_DIRSERVER_AUTHORITY_SERVICE_H
#define SLICE_DIRSERVER_AUTHORITY_SERVICE_H

#include "dirserver/volume.h"
#include "service/internal_program.h"
#include "wire/authority.h"
#include "wire/quota.h"

namespace slice::dirserver {

class AuthorityService : public service::InternalProgram {
 public:
  explicit AuthorityService(Volume& volume);

 private:
  Task<wire::FetchResult> fetch(const wire::FetchArgs& args);
  Task<wire::MergeResult> merge_all(const wire::MergeArgs& args);
  Task<wire::MergeResult> merge_elsewhere(const wire::MergeArgs& args,
                                          const std::vector<Result<routing::FileHandle>>& files, SiteId site);
  // Asks the server that this one has given the site to, whose callers may not know of that yet. Nothing: it
  // has not, or that one does not answer.
  template <class Answer, class Args>
  Task<std::optional<Answer>> pass_on(SiteId site, wire::AuthorityProcedure procedure, const Args& args);
  wire::FetchResult merge(Transaction& transaction, const Result<routing::FileHandle>& file,
                          std::uint32_t teller, const wire::FileMerge& merge);
  bool note_stored(AttributeCell& cell, StoredPart part) const;
  wire::HandlesResult handles(const wire::HandlesArgs& args);
  Task<wire::PolicyResult> policy(const wire::PolicyArgs& args);
  // Commits, and waits until what the transaction read and changed is durable; kOk, or why it is not.
  Task<nfs3::Status> finish(Transaction& transaction);

  Volume& volume_;
  Counter& fetches_;
  Counter& merges_;
  Counter &old_merges_, &refused_, &passed_on_;
};

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_AUTHORITY_SERVICE_H
