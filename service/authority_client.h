// AuthorityClient: what a data server knows of files' attributes, from the directory servers: fetched, cached
// for at most kMaxAge for permission checks, and told of writes (docs/architecture.md, "Attributes"). One
// loop.
#ifndef SLICE_SERVICE_AUTHORITY_CLIENT_H
#define SLICE_SERVICE_AUTHORITY_CLIENT_H

#include <functional>
#include <memory>
#include <optional>

#include "routing/file_handle.h"
#include "service/access.h"
#include "service/context.h"
#include "service/quota_rooms.h"
#include "wire/authority.h"

namespace slice::service {

struct KnownFile {
  nfs3::Attributes attributes;  // as the authority last said, moved forward by what this server did
  Epoch epoch;
  bool striped = false;
  nfs3::SharedAccess access;
  // Bytes from the begin on that are stored for certain, and no holes, as the authority said: what it was
  // told since is not among them.
  std::uint64_t solid = 0;

  Permissions permissions() const { return {attributes, access.get()}; }
};

class AuthorityClient {
 public:
  static constexpr Duration kMaxAge = std::chrono::seconds(2);
  static constexpr Duration kReportDelay = std::chrono::seconds(1);

  // How many bytes of a file this server stores now, holes not counted; nothing where it does not know. Told
  // with everything else, and asked as long as the client lives.
  using Stored = std::function<std::optional<std::uint64_t>(const routing::FileHandle&)>;
  // One file's attributes are kept for so many bytes of the server's `cache`: 65,536 where it has 256 MiB.
  static constexpr std::uint64_t kCacheOfAFile = 4096;
  static constexpr std::size_t kLeastFiles = 1024;
  // `most`: files whose attributes are kept; none: as above. More where all of these are in use.
  explicit AuthorityClient(ServiceContext& context, Stored stored = {}, std::optional<std::size_t> most = {});
  ~AuthorityClient();

  enum class Freshness {
    kCached,
    kNow
  };  // kCached: at most kMaxAge old; kNow: asks in any case (simultaneous askers share)
  // kStale: the file is gone; kUnavailable: its directory server does not answer (the caller drops the
  // request or answers JUKEBOX; the client goes on trying).
  Task<Result<KnownFile>> fetch(const routing::FileHandle& handle, Freshness freshness,
                                bool with_striped = false);
  // For READ, WRITE and COMMIT, which needs what WRITE needs: what is cached, if that lets `who` transfer and
  // `freshness` allows; else asks, so that a permission counts as soon as it is given (one taken away, within
  // kMaxAge). kDenied: even so.
  Task<Result<KnownFile>> fetch_for_transfer(const Identity& who, const routing::FileHandle& handle,
                                             bool write, Freshness freshness = Freshness::kCached);
  // For a WRITE that the file's attributes, `known`, let `who` do: room for what it stores, as far as
  // somebody has a quota; waits a while for what others have and may not use. Where it waited, `known` is as
  // of now. kQuota: there is none; no room is needed for what is stored already, of which `present` says how
  // many bytes of the whole blocks of [offset, offset + count) are so here. kUnavailable, kDenied, kStale.
  using Present = std::function<Task<std::uint64_t>()>;
  Task<Result<QuotaRooms::Taken>> room(const Identity& who, const routing::FileHandle& handle,
                                       std::uint64_t offset, std::uint64_t count, KnownFile& known,
                                       Present present);
  // What is cached, however old; nothing where never fetched.
  const KnownFile* peek(FileId file) const;

  // This server accepted bytes up to `end` (0: none) at `mtime` under `epoch`: folded into the cached entry
  // at once and told to the authority within kReportDelay.
  void note(const routing::FileHandle& handle, Epoch epoch, std::uint64_t end, nfs3::Time mtime);
  // The file has been cut to `size`, and `epoch` began: what is stored of it is told within kReportDelay,
  // where this server has something of it in mind. What is told of writes before comes under an epoch that is
  // over. Of a file that is empty now the authority knows.
  void note_cut(FileId file, std::uint64_t size, Epoch epoch);
  // Tells the authority now whatever it has not been told of this file, together with `end` and `mtime`; ends
  // when that is durable there.
  Task<Status> report(const routing::FileHandle& handle, Epoch epoch, std::uint64_t end, nfs3::Time mtime);
  // Drops what is cached (a truncate or remove passed): the next fetch asks.
  void forget(FileId file);
  // The same of all files of which `which` says so.
  void forget_those(const std::function<bool(FileId)>& which);
  // Tells everything not yet told; for a clean stop.
  Task<void> flush();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with calls under way
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_AUTHORITY_CLIENT_H
