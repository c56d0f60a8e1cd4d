// Extents: how far a file with a layout reaches on storage nodes; and how these are asked of its object once.
// One loop.
#ifndef SLICE_COORDINATOR_EXTENTS_H
#define SLICE_COORDINATOR_EXTENTS_H

#include <functional>
#include <optional>

#include "coordinator/file_gate.h"
#include "routing/copies.h"
#include "service/internal_call.h"
#include "wire/object.h"

namespace slice::coordinator {

inline wire::ObjectName object_of(const service::ServiceContext& context, FileId file) {
  return {context.handles.volume(), file, wire::ObjectKind::kFile};
}

// An object program's answer, asked once; nothing: there is none, or the file's site is held.
template <class R, class Args>
Task<std::optional<R>> ask_object(service::ServiceContext& context, FileGate& gate, FileId file,
                                  std::uint32_t server, wire::ObjectProcedure procedure, Args args) {
  auto result = co_await gate.unless_held(
      file, service::internal_call<R>(context.channel, context.tables.get()->server(server)->endpoint,
                                      wire::kObjectProgram, procedure, args));
  if (!result || !*result) co_return std::nullopt;
  co_return **result;
}

struct Extent {
  std::uint64_t end = 0;  // one past the last byte that was written, of all copies
  Epoch epoch;            // the largest
};

class Extents {
 public:
  Extents(service::ServiceContext& context, FileGate& gate) : context_(context), gate_(gate) {}

  // As all servers say that may have bytes of the file, but those of which `without` says so. Nothing where
  // one of them does not answer. Makes what they have durable.
  Task<std::optional<Extent>> of(routing::FileHandle handle, std::function<bool(std::uint32_t)> without);

 private:
  service::ServiceContext& context_;
  FileGate& gate_;
};

}  // namespace slice::coordinator

#endif  // SLICE_COORDINATOR_EXTENTS_H
