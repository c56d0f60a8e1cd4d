// The bytes of the generator's files: each is a function of the file's key, the version of its block, and its
// offset, so that whatever is read can be checked without having been kept.
#ifndef SLICE_TESTS_SPEC_LIKE_CONTENT_H
#define SLICE_TESTS_SPEC_LIKE_CONTENT_H

#include <cstdint>
#include <optional>

#include "common/bytes.h"

namespace slice::load {

inline constexpr std::uint64_t kBlock = 8192;  // bytes that are written together and share a version

struct Content {
  std::uint64_t key = 0;
  std::uint32_t version = 0;
};

// `offset` is that of out's first byte in the file.
void fill(Content content, std::uint64_t offset, ByteSpan out);
// Where `got` differs first, from its begin; nothing where all is right.
std::optional<std::size_t> first_difference(Content content, std::uint64_t offset, ByteView got);

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_CONTENT_H
