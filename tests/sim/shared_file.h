// SharedFile: what reads of blocks may show that many clients write to at once, durably: the oracle of the
// one file of a byte simulation that has no single writer. Each write happened at one instant between its
// call and its answer, and a read shows what was written last: copies of a stripe have one order.
#ifndef SLICE_TESTS_SIM_SHARED_FILE_H
#define SLICE_TESTS_SIM_SHARED_FILE_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "routing/file_handle.h"

namespace slice::sim {

class SharedFile {
 public:
  explicit SharedFile(routing::HandleBytes at) : handle(at) {}

  // A write begins; `number` is never written again.
  void writing(std::size_t block, std::uint32_t number);
  void written(std::size_t block, std::uint32_t number);  // it was answered
  // A read begins: give it to check().
  std::uint64_t reading() { return ++instants_; }
  // Empty: the read may show that; else what is wrong. `bytes`: short at the end of the file.
  std::string check(std::size_t block, std::uint64_t since, ByteView bytes) const;

  routing::HandleBytes handle;

 private:
  struct Write {
    std::uint64_t start = 0;
    std::optional<std::uint64_t> end;  // nothing: it has no answer
  };
  using Writes = std::map<std::uint32_t, Write>;  // of one block, by number
  // Another write came wholly after it, and was answered before the read began.
  static bool overwritten(const Writes& writes, std::optional<std::uint64_t> end, std::uint64_t since);

  std::uint64_t instants_ = 0;
  std::map<std::size_t, Writes> blocks_;
};

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_SHARED_FILE_H
