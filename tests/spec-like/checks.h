// Checks: what a reply must be, as functions without calls. Each answers what is wrong; empty: nothing.
#ifndef SLICE_TESTS_SPEC_LIKE_CHECKS_H
#define SLICE_TESTS_SPEC_LIKE_CHECKS_H

#include <optional>
#include <string>

#include "tests/spec-like/file_set.h"

namespace slice::load {

struct Expected {
  nfs3::FileType type = nfs3::FileType::kRegular;
  FileId fileid;
  std::optional<std::uint64_t> size = std::nullopt;
  std::optional<std::uint32_t> mode = std::nullopt;  // the nine bits of permission
};

std::string check_attributes(const nfs3::Attributes& attributes, const Expected& expected);
// The answer to a READ of `count` bytes at `offset`: its length, its end-of-file mark, its bytes.
std::string check_read(const File& file, std::uint64_t offset, std::uint32_t count, const nfs3::ReadOk& ok);
// `asked` bits, of which `needed` must be granted.
std::string check_access(std::uint32_t granted, std::uint32_t asked, std::uint32_t needed);
std::string check_fsstat(const nfs3::FsstatOk& ok);

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_CHECKS_H
