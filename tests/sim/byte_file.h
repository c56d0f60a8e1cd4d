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
  // `deaths`: of processes of the ensemble and errors of disks so far, when the write began.
  void written(std::size_t block, bool durable, Verifier verifier, unsigned deaths);
  void truncating(std::uint64_t size);
  void truncated(std::uint64_t size);
  // A COMMIT was answered with this verifier: the blocks that have to be written again.
  std::vector<std::size_t> committed(Verifier verifier);
  std::uint32_t last(std::size_t block) const { return blocks_[block].numbers.back(); }

  // What a read that begins now may show: a number that each block has had from some point on. From which on
  // depends on whether a process has died since, or a disk failed: an unstable write that was acknowledged
  // may then be lost.
  struct Look {
    unsigned deaths = 0;
    std::vector<std::size_t> acknowledged, durable;  // by block: the first number that may still be there
  };
  Look look(unsigned deaths) const;
  // Empty: a read of the block that ends now shows that; else what is wrong. `bytes`: what came, short at the
  // end of the file.
  std::string check(std::size_t block, const Look& look, unsigned deaths, ByteView bytes) const;
  // The same of a size: the file does not end before what must be there. `complete`: what was acknowledged
  // must, too; else what is durable (where several proxies know of sizes, NFS promises no more than
  // close-to-open).
  std::string check_size(const Look& look, unsigned deaths, bool complete, std::uint64_t size) const;

  routing::HandleBytes handle;

 private:
  struct Block {
    std::vector<std::uint32_t> numbers{0};  // all that were ever written
    std::size_t oldest = 0;                 // the first of them that may still be there, whoever dies
    std::size_t acknowledged = 0;           // the same as long as nobody has died since `deaths`
    unsigned deaths = 0;
    bool unstable = false;
    Verifier verifier;   // of the first unstable write since the last COMMIT
    bool mixed = false;  // there were different ones
  };
  std::size_t since(std::size_t block, const Look& look, unsigned deaths) const {
    return look.deaths == deaths ? look.acknowledged[block] : look.durable[block];
  }
  std::set<std::uint32_t> possible(std::size_t block, std::size_t since) const;

  std::vector<Block> blocks_ = std::vector<Block>(kBlocks);
};

std::string block_of(std::uint32_t number);

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_BYTE_FILE_H
