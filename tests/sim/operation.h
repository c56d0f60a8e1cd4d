// Operation: one call of a simulated client and its answer, as the oracles see it.
#ifndef SLICE_TESTS_SIM_OPERATION_H
#define SLICE_TESTS_SIM_OPERATION_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "wire/nfs3.h"

namespace slice::sim {

using ObjectId = std::uint64_t;  // a fileID
inline constexpr ObjectId kNoObject = 0;

enum class Kind {
  kLookup,
  kGetattr,
  kCreate,
  kMkdir,
  kSymlink,
  kRemove,
  kRmdir,
  kRename,
  kLink,
  kSetattr,
  kWrite,
  kCommit,
  kListedName,  // what one listing said of one name: there, or not
  kListing,     // a whole listing while nothing else went on
  kSize,        // the size that an answer showed, where it may be younger than the rest of that answer
};

// The attributes that the model knows of.
struct Seen {
  nfs3::FileType type = nfs3::FileType::kRegular;
  std::uint32_t mode = 0, nlink = 0;
  std::optional<std::uint64_t> size = 0;  // nothing: not to be judged
};

// Instants are numbers of a counter, so that of any two it is known which was first.
struct Operation {
  unsigned client = 0;
  Kind kind = Kind::kLookup;
  // ---- the call ----
  ObjectId object = kNoObject;  // whose handle was sent: the directory, or the object itself
  std::string name;
  ObjectId to = kNoObject;  // RENAME, LINK: the other directory
  std::string to_name;
  nfs3::CreateMode how = nfs3::CreateMode::kUnchecked;
  std::uint64_t verifier = 0;
  std::optional<std::uint32_t> mode;
  std::optional<std::uint64_t> size;
  std::uint64_t start = 0;
  // ---- the answer ----
  bool answered = false;  // else it may have had its effect, at any time after its start, or not
  std::uint64_t end = 0;
  nfs3::Status status = nfs3::Status::kOk;
  ObjectId result = kNoObject;  // what was found or made
  std::optional<Seen> seen;
  bool exact = false;  // `seen` also has the links of a directory right
  std::map<std::string, ObjectId> listing;
};

std::string describe(const Operation& operation);

}  // namespace slice::sim

#endif  // SLICE_TESTS_SIM_OPERATION_H
