// READDIR and READDIRPLUS results (RFC 1813 sections 3.3.16, 3.3.17): lists that are written entry by entry
// until the client's limits are reached, and read entry by entry, never as a whole.
#ifndef SLICE_WIRE_NFS3_READDIR_H
#define SLICE_WIRE_NFS3_READDIR_H

#include <array>

#include "wire/nfs3.h"

namespace slice::nfs3 {

using CookieVerifier = std::array<std::uint8_t, kCookieVerifierSize>;

struct DirectoryEntry {
  FileId fileid;
  std::string_view name;
  std::uint64_t cookie = 0;
  // READDIRPLUS only; both may be absent.
  PostOpAttributes attributes;
  std::optional<HandleView> handle;
};

// Writes the result of a success. For READDIR `maxcount` is the call's count; for READDIRPLUS dircount limits
// the bytes of fileids, names and cookies, maxcount the whole result.
class EntryListWriter {
 public:
  struct Limits {
    std::uint32_t dircount = ~0u;
    std::uint32_t maxcount = 0;
  };
  // Writes everything before the entries. `plus`: READDIRPLUS.
  EntryListWriter(rpc::XdrWriter& out, bool plus, const PostOpAttributes& directory,
                  const CookieVerifier& verifier, Limits limits);
  // False, and nothing written, where the entry would pass a limit. Where that is the first entry of the
  // listing, the procedure answers NFS3ERR_TOOSMALL instead (rewind the writer).
  bool add(const DirectoryEntry& entry);
  std::size_t entries() const { return entries_; }
  // Ends the result. `eof`: no entry is behind those added.
  void finish(bool eof);

 private:
  rpc::XdrWriter& out_;
  bool plus_;
  Limits limits_;
  std::size_t start_;
  std::size_t names_ = 0;
  std::size_t entries_ = 0;
};

// Reads a result; views point into the input.
//   EntryListReader list(reader, plus);
//   if (list.status() == Status::kOk) { DirectoryEntry e; while (list.next(e)) ...; }
//   if (!list.complete()) malformed;
class EntryListReader {
 public:
  EntryListReader(rpc::XdrReader& in, bool plus);
  Status status() const { return status_; }
  const PostOpAttributes& directory() const { return directory_; }
  const CookieVerifier& verifier() const { return verifier_; }
  bool next(DirectoryEntry& entry);  // false at the end, or where the bytes are malformed
  bool eof() const { return eof_; }  // valid after the last entry
  bool complete() const { return done_ && in_.complete(); }

 private:
  rpc::XdrReader& in_;
  bool plus_;
  bool done_ = false;
  bool eof_ = false;
  Status status_ = Status::kOk;
  PostOpAttributes directory_;
  CookieVerifier verifier_{};
};

}  // namespace slice::nfs3

#endif  // SLICE_WIRE_NFS3_READDIR_H
