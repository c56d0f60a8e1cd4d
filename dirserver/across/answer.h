// Answer: what a part of an operation comes to: a value, or one of the protocol's refusals.
#ifndef SLICE_DIRSERVER_ACROSS_ANSWER_H
#define SLICE_DIRSERVER_ACROSS_ANSWER_H

#include <tl/expected.hpp>

#include "common/result.h"
#include "wire/nfs3.h"

namespace slice::dirserver {

template <class T>
using Answer = tl::expected<T, nfs3::Status>;
inline tl::unexpected<nfs3::Status> refuse(nfs3::Status status) {
  return tl::unexpected<nfs3::Status>(status);
}
// Logs what an operator should see.
void log_refusal(const Error& error);
// As above for what the store or the configuration refused, which is logged.
tl::unexpected<nfs3::Status> refuse(const Error& error);

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_ANSWER_H
