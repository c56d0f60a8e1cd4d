#include "tests/spec-like/checks.h"

#include <fmt/core.h>

#include <algorithm>

namespace slice::load {
namespace {

constexpr std::uint32_t kNanoseconds = 1'000'000'000;
constexpr std::uint32_t kPermissions = 0777;

bool is_time(nfs3::Time time) {
  return time.nanoseconds < kNanoseconds;
}

}  // namespace

std::string check_attributes(const nfs3::Attributes& got, const Expected& expected) {
  if (got.type != expected.type) {
    return fmt::format("shows type {}, which is {}", static_cast<int>(got.type),
                       static_cast<int>(expected.type));
  }
  if (got.fileid != expected.fileid) {
    return fmt::format("shows fileid {}, which is {}", got.fileid.value, expected.fileid.value);
  }
  if (expected.size && got.size != *expected.size) {
    return fmt::format("shows size {}, which is {}", got.size, *expected.size);
  }
  if (expected.mode && (got.mode & kPermissions) != *expected.mode) {
    return fmt::format("shows mode {:o}, which is {:o}", got.mode & kPermissions, *expected.mode);
  }
  if (got.nlink == 0) return "shows no link";
  if (!is_time(got.atime) || !is_time(got.mtime) || !is_time(got.ctime)) {
    return "shows a time of a billion nanoseconds or more";
  }
  return "";
}

std::string check_read(const File& file, std::uint64_t offset, std::uint32_t count, const nfs3::ReadOk& ok) {
  const std::uint64_t there = offset >= file.size ? 0 : std::min<std::uint64_t>(count, file.size - offset);
  if (ok.count > there) {
    return fmt::format("of {} bytes at {} gives {} in a file of {}", count, offset, ok.count, file.size);
  }
  if (auto at = first_difference(file, offset, ok.data)) {
    return fmt::format("gives a wrong byte at {}: {:#04x} (version {} of its block)", *at,
                       ok.data[*at - offset], file.content(*at / kBlock).version);
  }
  const bool at_end = offset + ok.count >= file.size;
  if (ok.eof != at_end) {
    return fmt::format("of {} bytes at {} gives {} and {}the end of a file of {}", count, offset, ok.count,
                       ok.eof ? "" : "not ", file.size);
  }
  if (ok.count == 0 && there > 0) return fmt::format("of {} bytes at {} gives none", count, offset);
  return "";
}

std::string check_access(std::uint32_t granted, std::uint32_t asked, std::uint32_t needed) {
  if ((granted & ~asked) != 0) return fmt::format("grants {:#x} where {:#x} was asked", granted, asked);
  if ((granted & needed) != needed)
    return fmt::format("grants {:#x}, not {:#x}, to the owner", granted, needed);
  return "";
}

std::string check_fsstat(const nfs3::FsstatOk& ok) {
  if (ok.free_bytes > ok.total_bytes || ok.available_bytes > ok.free_bytes) {
    return fmt::format("shows {} bytes, {} free, {} available", ok.total_bytes, ok.free_bytes,
                       ok.available_bytes);
  }
  if (ok.free_files > ok.total_files || ok.available_files > ok.free_files) {
    return fmt::format("shows {} files, {} free, {} available", ok.total_files, ok.free_files,
                       ok.available_files);
  }
  return "";
}

}  // namespace slice::load
