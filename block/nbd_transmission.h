// What one request of the transmission phase is answered, given its device. Knows nothing of connections.
#ifndef SLICE_BLOCK_NBD_TRANSMISSION_H
#define SLICE_BLOCK_NBD_TRANSMISSION_H

#include <memory>
#include <string>

#include "block/device.h"
#include "block/nbd.h"

namespace slice::block {

// What client and server have agreed upon.
struct NbdTerms {
  std::shared_ptr<Device> device;
  std::string name;           // of the export
  bool structured = false;    // replies
  bool allocation = false;    // base:allocation, of block status
  std::uint32_t longest = 0;  // what one request may read or write, bytes
};

// kNone: the device may be asked. Else the answer ("Request types", "Error values").
nbd::ErrorNumber judge(const nbd::Request& request, const NbdTerms& terms);
nbd::ErrorNumber error_number_of(const Error& error);

// How much of a request's data is in memory: what is read or, from the client, to be written.
std::size_t data_of(const nbd::Request& request);

// The reply that says so; kNone for what answers with no data.
Buffer encode_reply(const nbd::Request& request, bool structured, nbd::ErrorNumber error);

struct NbdReply {
  Buffer bytes;
  nbd::ErrorNumber error{};
  std::string failure = {};  // what the device said, for the log
};
// Asks the device for what judge() found good. `data`: of a write, all of it. `terms` are kept by the task.
Task<NbdReply> execute(std::shared_ptr<const NbdTerms> terms, nbd::Request request, Buffer data);

}  // namespace slice::block

#endif  // SLICE_BLOCK_NBD_TRANSMISSION_H
