// DataDirectory: a process's claim on its data directory: that it exists, is of this server and of a format
// this program reads, and that no second process uses it. Blocking calls: for the start of a process.
#ifndef SLICE_SERVICE_DATA_DIRECTORY_H
#define SLICE_SERVICE_DATA_DIRECTORY_H

#include <cstdint>
#include <string>

#include "common/config.h"
#include "common/result.h"

namespace slice::service {

// Version of what data directories hold, by their role's document in docs/formats.
inline constexpr std::uint32_t kDataFormat = 1;

class DataDirectory {
 public:
  // Makes the folder where there is none (mode 0700) and locks it. A new one gets the file FORMAT, durably:
  // four lines, `format VERSION`, `role ROLE`, `volume ID`, `server NAME`; it is checked afterwards.
  // kInvalid: it belongs to another server, role or volume, its format is another version, it has files
  // but no FORMAT, or it was being filled from a backup and that did not end. kExists: another process has
  // it. kIo: the system refuses.
  static Result<DataDirectory> claim(const ServerConfig& server, VolumeId volume,
                                     std::uint32_t format = kDataFormat);

  DataDirectory(DataDirectory&& other) noexcept;
  DataDirectory& operator=(DataDirectory&&) = delete;
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;
  ~DataDirectory();  // lets the lock go

  std::uint64_t free_bytes() const { return free_bytes_; }  // when it was claimed
  bool is_new() const { return is_new_; }                   // FORMAT was written by this call
  // A server has stored something here: there is more than FORMAT, the kept tables and the record.
  bool served() const { return served_; }

  // From when the first ends well until the second does nobody claims it again: it is being filled, and would
  // be taken for whole. Durable.
  Status begin_filling();
  Status end_filling();

 private:
  DataDirectory(std::string folder, int folder_fd, std::uint64_t free_bytes, bool is_new, bool served)
      : folder_(std::move(folder)),
        folder_fd_(folder_fd),
        free_bytes_(free_bytes),
        is_new_(is_new),
        served_(served) {}
  std::string folder_;
  int folder_fd_;
  std::uint64_t free_bytes_;
  bool is_new_, served_;
};

}  // namespace slice::service

#endif  // SLICE_SERVICE_DATA_DIRECTORY_H
