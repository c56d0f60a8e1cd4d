// ObjectProgram: the internal object program (wire/object.h) of the small-file server: TRUNCATE, REMOVE,
// COMMIT, STAT, LIST, PLACE_FILE and IMAGE of the bytes below the threshold, for directory servers,
// coordinators, slicectl, slice-fsck, slice-backup and other small-file servers. One loop.
#ifndef SLICE_SMALLFILE_OBJECT_PROGRAM_H
#define SLICE_SMALLFILE_OBJECT_PROGRAM_H

#include <optional>

#include "common/log.h"
#include "service/authority_client.h"
#include "service/context.h"
#include "service/internal_program.h"
#include "service/site_gate.h"
#include "service/site_moves.h"
#include "smallfile/sites.h"
#include "smallfile/store.h"
#include "wire/object.h"

namespace slice::smallfile {

class ObjectProgram : public service::InternalProgram {
 public:
  // All outlive it.
  ObjectProgram(service::ServiceContext& context, Store& store, Sites& sites,
                service::AuthorityClient& authority, service::SiteGate& gate,
                const service::SiteMoves& moves);

 private:
  Task<wire::ObjectStatusResult> truncate(const wire::ObjectTruncateArgs& args);
  Task<wire::ObjectStatusResult> remove(const wire::ObjectRemoveArgs& args);
  Task<wire::ObjectCommitResult> commit(const wire::ObjectCommitArgs& args);
  wire::ObjectStatResult stat(const wire::ObjectStatArgs& args);
  wire::ObjectListResult list(const wire::ObjectListArgs& args);
  Task<wire::ObjectImageResult> image(const wire::ObjectImageArgs& args);
  // kInval: it is no file of this volume.
  nfs3::Status check(const wire::ObjectName& object) const;
  SiteId site_of(FileId file) const;
  bool owns(FileId file) const;
  // What is answered where the file's site is not this server's; nothing: it is.
  std::optional<wire::ObjectStatusResult> not_ours(const wire::ObjectName& object);
  // The answer when a change was done here; `everywhere`: and at a new owner of the file's site, if there is
  // to be one. Else the site may be that one's by now, or be about to be: then it is asked behind this one.
  Task<wire::ObjectStatusResult> changed(FileId file, bool everywhere);
  nfs3::Status failed(std::string_view operation, const wire::ObjectName& object, const Error& error);

  service::ServiceContext& context_;
  Store& store_;
  Sites& sites_;
  service::AuthorityClient& authority_;
  service::SiteGate& gate_;
  const service::SiteMoves& moves_;
  Counter &failures_, &misdirected_;
  LogLimiter log_limit_{5};
};

}  // namespace slice::smallfile

#endif  // SLICE_SMALLFILE_OBJECT_PROGRAM_H
