// The file of a backup: what one server had, as records. Format: docs/formats/backup.md. Blocking; one
// thread.
#ifndef SLICE_BACKUP_FORMAT_H
#define SLICE_BACKUP_FORMAT_H

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/bytes.h"
#include "common/config.h"
#include "common/ids.h"
#include "common/loop.h"
#include "common/result.h"
#include "wire/configuration.h"
#include "wire/manager.h"
#include "wire/object.h"
#include "wire/scan.h"

namespace slice::backup {

inline constexpr const char* kSuffix = ".backup";

// What a file begins with.
struct Header {
  VolumeId volume;
  wire::Role role = wire::Role::kDirectory;  // kDirectory, kSmallFile or kManager
  std::string server;
  std::string made_for;              // what of the volume must be the same where it is brought back
  WallTime taken;                    // by the clock of who took it
  std::vector<std::uint32_t> sites;  // whose cells or files it has, in order
};
// Of a directory server: cells, in the order of their keys.
using Cell = wire::ScanCell;
// Of a small-file server: files, in the order of their fileIDs. Bytes that are in no run are zeros.
struct Image {
  FileId file;
  std::uint64_t end = 0;  // one past the last byte written
  Epoch epoch;
  nfs3::Time mtime;
  std::vector<wire::ObjectRun> runs;
};
// Of a manager.
using StateFile = wire::StateFile;
using Record = std::variant<Cell, Image, StateFile>;

class Writer {
 public:
  // Makes `path` with ".part" behind it, for its owner alone. kExists, kIo.
  static Result<std::unique_ptr<Writer>> make(std::string path, const Header& header);
  ~Writer();  // what was not finished stays with its name
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // kIo, kNoSpace.
  Status add(const Record& record);
  // Writes the end, makes all durable and gives the file its name.
  Status finish();
  std::uint64_t records() const { return records_; }

 private:
  Writer(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Status write(ByteView payload);

  const std::string path_;
  std::FILE* file_;
  std::uint64_t records_ = 0;
};

class Reader {
 public:
  // kNotFound, kIo; kCorrupt, kInvalid: it is no file of a backup, or of another version.
  static Result<std::unique_ptr<Reader>> open(const std::string& path);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const Header& header() const { return header_; }
  const std::string& path() const { return path_; }
  // The next record; nothing at the end. kCorrupt, with the place: a record that does not decode, or no end.
  Result<std::optional<Record>> next();
  // The same of a file that has records of one kind alone; `kind`: what that is called. kCorrupt: another
  // one.
  template <class Kind>
  Result<std::optional<Kind>> next_of(std::string_view kind) {
    auto record = next();
    if (!record) return fail(std::move(record).error());
    if (!*record) return std::optional<Kind>();
    Kind* found = std::get_if<Kind>(&**record);
    if (found == nullptr) return damaged(fmt::format("a record that is no {}", kind));
    return std::optional<Kind>(std::move(*found));
  }

 private:
  Reader(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Result<Buffer> read();
  tl::unexpected<Error> damaged(std::string_view what) const;

  const std::string path_;
  std::FILE* file_;
  Header header_;
  std::uint64_t at_ = 0, records_ = 0;
  bool ended_ = false;
};

// Header::made_for of a server of this role.
std::string made_for(const EnsembleConfig& config, wire::Role role);

// Of the files of a backup in this folder: those whose role is `role`, in the order of their names.
// kNotFound: there is none; errors as of Reader::open().
Result<std::vector<std::unique_ptr<Reader>>> open_all(const std::string& folder, wire::Role role);

}  // namespace slice::backup

#endif  // SLICE_BACKUP_FORMAT_H
