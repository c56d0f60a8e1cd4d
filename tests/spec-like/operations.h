// Operations: each does one operation on what it is given, holds the reply against the standard and against
// what the file set knows, and tells the file set what became of it. Files are locked by the caller. Every
// operation answers whether it was done: if not, the reason was counted and noted.
#ifndef SLICE_TESTS_SPEC_LIKE_OPERATIONS_H
#define SLICE_TESTS_SPEC_LIKE_OPERATIONS_H

#include "tests/spec-like/file_set.h"
#include "tests/spec-like/mix.h"
#include "tests/spec-like/nfs.h"
#include "tests/spec-like/tally.h"

namespace slice::load {

class Operations {
 public:
  // Counts go to `tally()`, which the caller may take and put anew between phases.
  Operations(Nfs& nfs, FileSet& files, const Mix& mix) : nfs_(nfs), files_(files), mix_(mix) {}

  Tally& tally() { return tally_; }
  // The parent of all; where FSSTAT asks.
  void set_root(const Handle& root) { root_ = root; }

  Task<bool> lookup(File& file);
  Task<bool> lookup_missing(std::uint32_t directory, std::string name);
  Task<bool> access(File& file);
  Task<bool> access(Directory& directory);
  Task<bool> getattr(File& file);
  Task<bool> setattr(File& file);
  Task<bool> read(File& file);
  Task<bool> write(File& file);
  Task<bool> append(File& file);
  Task<bool> commit(File& file);
  Task<bool> create(File& file);
  Task<bool> remove(File& file);  // the file is gone from the file set afterwards where it was done
  Task<bool> rename(File& file);
  Task<bool> readlink(Link& link);
  Task<bool> list(Directory& directory, bool plus);
  Task<bool> fsstat();

  // For building and for taking away.
  Task<Result<Handle>> make_directory(const Handle& parent, std::string name, Directory* fill);
  Task<bool> make_link(Directory& directory, Link& link);
  Task<bool> write_whole(File& file);
  Task<bool> remove_name(const Handle& directory, std::string name, bool is_directory);

 private:
  struct Range {
    std::uint64_t offset = 0, count = 0;
  };
  Directory& directory_of(const File& file) { return files_.directories()[file.directory]; }
  std::string where(const File& file) { return directory_of(file).name + "/" + file.name(); }

  // Counts a violation, with the operation and what it was about.
  bool wrong(nfs3::Procedure procedure, const std::string& about, const std::string& what);
  bool failed(nfs3::Procedure procedure, const std::string& about, const Error& error);
  // A result that came, decodes, and is OK (or `also`).
  template <class Ok>
  bool good(const Result<Answer<Ok>>& answer, nfs3::Procedure procedure, const std::string& about,
            nfs3::Status also = nfs3::Status::kOk);

  bool check(nfs3::Procedure procedure, const nfs3::PostOpAttributes& attributes, const Directory& directory);
  // For a file that may have lost unstable bytes with a restart of the server, first asks whether it did.
  Task<bool> check(nfs3::Procedure procedure, nfs3::PostOpAttributes attributes, File& file);
  bool check_before(nfs3::Procedure procedure, const nfs3::WccData& wcc, const File& file, bool resent);
  Task<bool> suspect(nfs3::Procedure procedure, File& file, std::string what);
  Task<bool> check_read(File& file, Range range, const Answer<nfs3::ReadOk>& answer);

  Range range_to_read(File& file);
  Range range_to_write(File& file);
  Task<bool> write_range(File& file, Range range, bool stable);
  // True where COMMIT shows the verifier that the writes had.
  Task<Result<bool>> ask_commit(File& file);
  Task<bool> rewrite(File& file);
  Task<bool> set_size(File& file, std::uint64_t size);
  Task<bool> set_mode(File& file, std::uint32_t mode);
  Task<bool> removed_handle_is_stale(Handle handle, std::string about);

  Nfs& nfs_;
  FileSet& files_;
  const Mix& mix_;
  Tally tally_;
  Handle root_;
};

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_OPERATIONS_H
