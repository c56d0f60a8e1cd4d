// ByteFile: what reads of one file may show, by what its one writer has done: the oracle of the byte
// simulation. The file is blocks of kBlock bytes, kApart bytes apart; a block holds one number, again and
// again (0: a hole).
#ifndef SLICE_TESTS_SIM_BYTE_FILE_H
#define SLICE_TESTS_SIM_BYTE_FILE_H

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/ids.h"
#include "routing/file_handle.h"

namespace slice::sim {

inline constexpr std::size_t kBlocks = 16;
inline constexpr std::size_t kBlock = 4096;
inline constexpr std::uint64_t kApart = 32 << 10;
inline constexpr std::uint64_t offset_of(std::size_t block) {
  return block * kApart;
}

class ByteFile {
 public:
  explicit ByteFile(routing::HandleBytes at) : handle(at) {}

  // The writer's, in this order: what it is about to write; that it has been answered.
  void writing(std::size_t block, std::uint32_t number) { blocks_[block].numbers.push_back(number); }
  void written(std::size_t block, bool durable, Verifier verifier);
  void truncating(std::uint64_t size);
  void truncated(std::uint64_t size);
  // A COMMIT was answered with this verifier: the blocks that have to be written again.
  std::vector<std::size_t> committed(Verifier verifier);
  std::uint32_t last(std::size_t block) const { return blocks_[block].numbers.back(); }

  // A read shows a number that the block has had between `since` (oldest() when it began) and now.
  std::size_t oldest(std::size_t block) const { return blocks_[block].oldest; }
  // Empty: it does; else what is wrong. `bytes`: what came, short at the end of the file.
  std::string check(std::size_t block, std::size_t since, ByteView bytes) const;

  routing::HandleBytes handle;

 private:
  struct Block {
    std::vector<std::uint32_t> numbers{0};  // all that were ever written
    std::size_t oldest = 0;                 // the first of them that may still be there
    bool unstable = false;
    Verifier verifier;   // of the first unstable write since the last COMMIT
    bool mixed = false;  // there were different ones
  };
  std::vector<Block> blocks_ = std::vector<Block>(kBlocks);
};

std::string block_of(std::uint32_t number);

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_BYTE_FILE_H
