// Calls in short, for loads that check every status; two calls at once; and the paper's untar.
#ifndef SLICE_TESTS_CLUSTER_CLIENT_CALLER_H
#define SLICE_TESTS_CLUSTER_CLIENT_CALLER_H

#include <string>
#include <utility>

#include "tests/cluster/client/nfs_connection.h"

namespace slice::client {

// Throws RpcError with what was tried unless the status is the wanted one.
void must(nfsstat3 status, const std::string& what, nfsstat3 wanted = NFS3_OK);

class Caller {
 public:
  explicit Caller(const ConnectionOptions& options) : nfs_(options) {}

  template <typename Arguments, typename Result>
  Answer<Result> call(const Procedure<Arguments, Result>& procedure, Arguments arguments) {
    return nfs_.call(procedure, arguments);
  }

  template <typename Arguments, typename Result>
  nfsstat3 status(const Procedure<Arguments, Result>& procedure, Arguments arguments) {
    return (*call(procedure, arguments))->status;
  }

  // Both at once; what each answered.
  template <typename A, typename B, typename C, typename D>
  std::pair<nfsstat3, nfsstat3> together(const Procedure<A, B>& one, A one_arguments,
                                         const Procedure<C, D>& other, C other_arguments) {
    Answer<B> first;
    Answer<D> second;
    std::string failure;
    nfs_.call_async<A, B>(one, one_arguments, [&](Answer<B> answer, const std::string& error) {
      first = std::move(answer);
      failure += error;
    });
    nfs_.call_async<C, D>(other, other_arguments, [&](Answer<D> answer, const std::string& error) {
      second = std::move(answer);
      failure += error;
    });
    while (nfs_.outstanding() > 0) nfs_.run_once(0.1);
    if (!failure.empty()) throw RpcError(failure);
    std::pair<nfsstat3, nfsstat3> result{(*first)->status, (*second)->status};
    if (result.first == NFS3ERR_JUKEBOX) result.first = status(one, one_arguments);
    if (result.second == NFS3ERR_JUKEBOX) result.second = status(other, other_arguments);
    return result;
  }

  Handle lookup(const Handle& folder, const std::string& name);
  fattr3 attributes(const Handle& object);
  // The handle comes from the reply, which must have one.
  Handle create(const Handle& folder, const std::string& name);
  Handle make_folder(const Handle& folder, const std::string& name);

  // One file, or one folder, as the paper's untar makes it, in seven calls: LOOKUP, ACCESS, CREATE (or
  // MKDIR), GETATTR, LOOKUP, SETATTR, SETATTR.
  static constexpr unsigned kCallsToUnpack = 7;
  Handle unpack_file(const Handle& folder, const std::string& name);
  Handle unpack_folder(const Handle& folder, const std::string& name);

  NfsConnection& nfs() { return nfs_; }

 private:
  void before_unpacking(const Handle& folder, const std::string& name);
  void after_unpacking(const Handle& folder, const std::string& name, const Handle& object,
                       std::uint32_t mode);
  void set_attributes(const Handle& object, const sattr3& attributes);

  NfsConnection nfs_;
};

}  // namespace slice::client

#endif  // SLICE_TESTS_CLUSTER_CLIENT_CALLER_H
