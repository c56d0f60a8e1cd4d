#include "service/data_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/whole_file.h"

namespace slice::service {
namespace {

constexpr const char* kFormatFile = "FORMAT";
constexpr std::size_t kMostOfFormat = 4096, kToldOfFormat = 512;  // bytes
constexpr const char* kFormatNew = "FORMAT.new";
constexpr const char* kFilling = "RESTORING";

tl::unexpected<Error> system_error(const std::string& folder, std::string_view what) {
  return fail(Errc::kIo, "data directory '{}': {}: {}", folder, what, std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string expected_format(const ServerConfig& server, VolumeId volume, std::uint32_t format) {
  return fmt::format("format {}\nrole {}\nvolume {}\nserver {}\n", format, role_name(server.role),
                     volume.value, server.name);
}

Status write_format(int folder, const ServerConfig& server, const std::string& text) {
  Descriptor file(::openat(folder, kFormatNew, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0 || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file.get()) != 0 || ::renameat(folder, kFormatNew, folder, kFormatFile) != 0 ||
      ::fsync(folder) != 0) {
    return system_error(server.data, "writing FORMAT");
  }
  return {};
}

// What a new folder may hold, and an interrupted first start may have left.
constexpr std::array<std::string_view, 4> kOfNew{".", "..", "lost+found", kFormatNew};
// What a server may have besides before it has stored anything (service/manager_session.cc,
// service/settings_keeper.cc, service/ownership.cc).
constexpr std::array<std::string_view, 7> kOfUnused{kFormatFile,        "tables.copy",   "tables.copy.new",
                                                    "ownership",        "ownership.new", "settings.copy",
                                                    "settings.copy.new"};

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether the folder holds nothing but these and kOfNew.
Result<bool> is_empty(int folder, const ServerConfig& server, std::span<const std::string_view> known) {
  int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = copy < 0 ? nullptr : ::fdopendir(copy);
  if (listing == nullptr) return system_error(server.data, "listing");
  bool empty = true;
  while (const dirent* entry = ::readdir(listing)) {
    std::string_view name(entry->d_name);
    if (!among(kOfNew, name) && !among(known, name)) empty = false;
  }
  ::closedir(listing);
  return empty;
}

// True where FORMAT had to be written.
Result<bool> check_format(int folder, const ServerConfig& server, const std::string& expected) {
  auto file = read_whole_file_at(folder, kFormatFile, kMostOfFormat);
  if (!file && file.error().code != Errc::kNotFound) {
    return fail(Errc::kIo, "data directory '{}': FORMAT: {}", server.data, file.error().message);
  }
  if (!file) {
    auto empty = is_empty(folder, server, {});
    if (!empty) return fail(std::move(empty).error());
    if (!*empty) {
      return fail(Errc::kInvalid, "data directory '{}' has files but no FORMAT: it is not one of Slice",
                  server.data);
    }
    SLICE_RETURN_IF_ERROR(write_format(folder, server, expected));
    return true;
  }
  std::string& text = file->bytes;
  if (text == expected) return false;
  text.resize(std::min(text.size(), kToldOfFormat));
  for (char& c : text) {
    if (c == '\n') c = ' ';
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = '?';
  }
  std::string wanted = expected;
  std::replace(wanted.begin(), wanted.end(), '\n', ' ');
  return fail(Errc::kInvalid, "data directory '{}': FORMAT says '{}', but '{}' is expected", server.data,
              text, wanted);
}

}  // namespace

Result<DataDirectory> DataDirectory::claim(const ServerConfig& server, VolumeId volume,
                                           std::uint32_t format) {
  std::error_code error;
  bool made = std::filesystem::create_directories(server.data, error);
  if (error) return fail(Errc::kIo, "data directory '{}': {}", server.data, error.message());
  if (made) std::filesystem::permissions(server.data, std::filesystem::perms::owner_all, error);
  Descriptor folder(::open(server.data.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return system_error(server.data, "opening");
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error(server.data, "locking");
    return fail(Errc::kExists, "data directory '{}' is in use by another process", server.data);
  }
  if (::faccessat(folder.get(), kFilling, F_OK, 0) == 0) {
    return fail(Errc::kInvalid,
                "data directory '{}': bringing it back from a backup did not end: empty it and begin again",
                server.data);
  }
  auto is_new = check_format(folder.get(), server, expected_format(server, volume, format));
  if (!is_new) return fail(std::move(is_new).error());
  auto unused = is_empty(folder.get(), server, kOfUnused);
  if (!unused) return fail(std::move(unused).error());
  struct statvfs space{};
  if (::fstatvfs(folder.get(), &space) != 0) return system_error(server.data, "asking for free space");
  std::uint64_t free_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  return DataDirectory(server.data, folder.release(), free_bytes, *is_new, !*unused);
}

DataDirectory::DataDirectory(DataDirectory&& other) noexcept
    : folder_(std::move(other.folder_)),
      folder_fd_(std::exchange(other.folder_fd_, -1)),
      free_bytes_(other.free_bytes_),
      is_new_(other.is_new_),
      served_(other.served_) {}

Status DataDirectory::begin_filling() {
  Descriptor file(::openat(folder_fd_, kFilling, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0 || ::fsync(file.get()) != 0 || ::fsync(folder_fd_) != 0)
    return system_error(folder_, kFilling);
  return {};
}

Status DataDirectory::end_filling() {
  if (::fsync(folder_fd_) != 0 || ::unlinkat(folder_fd_, kFilling, 0) != 0 || ::fsync(folder_fd_) != 0)
    return system_error(folder_, kFilling);
  return {};
}

DataDirectory::~DataDirectory() {
  if (folder_fd_ >= 0) ::close(folder_fd_);
}

}  // namespace slice::service
