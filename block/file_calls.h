// FileCalls: READ, WRITE and COMMIT of one file, as an NFS client makes them, through a proxy's worker of
// this process: so stripes, copies, moves and takeovers are the data path's matter. Calls are the ensemble's
// own (rpc/auth.h, SliceVerifier::own), and servers know their copies again. One loop.
#ifndef SLICE_BLOCK_FILE_CALLS_H
#define SLICE_BLOCK_FILE_CALLS_H

#include <functional>
#include <map>
#include <memory>

#include "block/device.h"
#include "common/loop.h"
#include "common/result.h"
#include "common/task.h"
#include "proxy/worker.h"
#include "routing/file_handle.h"
#include "wire/nfs3.h"

namespace slice::block {

// Where calls go in: proxy::Worker::take().
using TakeCall = std::function<bool(proxy::Client& client, Buffer message)>;

// What an OpenVolume needs of the file that it lies in.
class VolumeFile {
 public:
  static constexpr std::uint32_t kMostBytes = nfs3::kMaxTransfer;  // of one operation

  VolumeFile() = default;
  VolumeFile(const VolumeFile&) = delete;
  VolumeFile& operator=(const VolumeFile&) = delete;
  virtual ~VolumeFile() = default;

  // Fills all of it; kIo where the file ends before. Errors of all: kTimedOut, a server was waited for as
  // long as it may be; kStale; kNoSpace, kQuota; kIo.
  virtual Task<Status> read(std::uint64_t offset, ByteSpan into) = 0;
  // All of it, with the verifier that the first of its bytes were answered with: where a later COMMIT says
  // the same, no server was started anew since.
  virtual Task<Result<Verifier>> write(std::uint64_t offset, ByteView data, bool durable) = 0;
  // The same with so many zeros, at most kMostBytes, whose room on disks is given back.
  virtual Task<Result<Verifier>> make_hole(std::uint64_t offset, std::uint32_t size, bool durable) = 0;
  // Of all that was answered before, whoever wrote it.
  virtual Task<Result<Verifier>> commit() = 0;
  // What is there from `offset` on, of at least one byte, and true as far as the stripe unit goes.
  virtual Task<Result<Extent>> extent(std::uint64_t offset) = 0;
};

class FileCalls : public VolumeFile {
 public:
  struct Options {
    rpc::Endpoint name;                                     // this client's, of no other one
    std::uint32_t first_xid = 1;                            // random
    Duration again = std::chrono::seconds(30);              // a call without an answer is sent again
    Duration busy_pause = std::chrono::milliseconds(100);   // after NFS3ERR_JUKEBOX, doubled up to
    Duration longest_busy_pause = std::chrono::seconds(2);  // this
    // After so long it fails where it is told to come again; 0: never. Where there is no answer it waits on.
    Duration patience = Duration(0);
  };
  // `loop` and what `take` refers to outlive it, and it every task of its own.
  FileCalls(Loop& loop, TakeCall take, const routing::HandleBytes& handle, const Options& options);
  ~FileCalls() override;

  Task<Status> read(std::uint64_t offset, ByteSpan into) override;
  Task<Result<Verifier>> write(std::uint64_t offset, ByteView data, bool durable) override;
  Task<Result<Verifier>> make_hole(std::uint64_t offset, std::uint32_t size, bool durable) override;
  Task<Result<Verifier>> commit() override;
  Task<Result<Extent>> extent(std::uint64_t offset) override;

 private:
  class Copy;
  // Until there is an answer that is final: its record; of an error the status as an Error.
  template <class Args>
  Task<Result<proxy::BufferChain>> call(nfs3::Procedure procedure, Args args);
  Task<Result<std::uint32_t>> read_some(std::uint64_t offset, ByteSpan into);
  Task<Result<Verifier>> write_all(nfs3::WriteArgs args);

  Loop& loop_;
  const Options options_;
  const TakeCall take_;
  const routing::HandleBytes handle_;
  std::uint32_t next_xid_;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_FILE_CALLS_H
