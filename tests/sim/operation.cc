#include "tests/sim/operation.h"

#include <fmt/format.h>

namespace slice::sim {
namespace {

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kLookup:
      return "LOOKUP";
    case Kind::kGetattr:
      return "GETATTR";
    case Kind::kCreate:
      return "CREATE";
    case Kind::kMkdir:
      return "MKDIR";
    case Kind::kSymlink:
      return "SYMLINK";
    case Kind::kRemove:
      return "REMOVE";
    case Kind::kRmdir:
      return "RMDIR";
    case Kind::kRename:
      return "RENAME";
    case Kind::kLink:
      return "LINK";
    case Kind::kSetattr:
      return "SETATTR";
    case Kind::kWrite:
      return "WRITE";
    case Kind::kSize:
      return "size of";
    case Kind::kCommit:
      return "COMMIT";
    case Kind::kListedName:
      return "listed";
    case Kind::kListing:
      return "READDIR";
  }
  return "?";
}

std::string arguments(const Operation& operation) {
  std::string text = fmt::format("{:x}", operation.object);
  if (!operation.name.empty()) text += "/" + operation.name;
  if (operation.to != kNoObject) text += fmt::format(" -> {:x}/{}", operation.to, operation.to_name);
  if (operation.kind == Kind::kCreate) {
    constexpr const char* modes[] = {"unchecked", "guarded", "exclusive"};
    text += fmt::format(" {}", modes[static_cast<unsigned>(operation.how) % 3]);
    if (operation.how == nfs3::CreateMode::kExclusive)
      text += fmt::format(" verifier={}", operation.verifier);
  }
  if (operation.mode) text += fmt::format(" mode={:o}", *operation.mode);
  if (operation.size) text += fmt::format(" size={}", *operation.size);
  return text;
}

std::string answer(const Operation& operation) {
  if (!operation.answered) return "unanswered";
  std::string text(nfs3::status_name(operation.status));
  if (operation.result != kNoObject) text += fmt::format(" {:x}", operation.result);
  if (operation.seen) {
    const Seen& seen = *operation.seen;
    text += fmt::format(" type={} mode={:o} nlink={} size={}", static_cast<unsigned>(seen.type), seen.mode,
                        seen.nlink, seen.size ? std::to_string(*seen.size) : "?");
  }
  for (const auto& [name, id] : operation.listing) text += fmt::format(" {}={:x}", name, id);
  return text;
}

}  // namespace

std::string describe(const Operation& operation) {
  return fmt::format("[{:5} {:>5}] client {} {} {} = {}", operation.start,
                     operation.answered ? std::to_string(operation.end) : "", operation.client,
                     kind_name(operation.kind), arguments(operation), answer(operation));
}

}  // namespace slice::sim
