// A connection that moves a file's bytes in records of one size, with many calls outstanding and as little
// work of its own as there can be, so that a benchmark's figures are the server's: calls are encoded once,
// answers received into one place. Every answer is checked, and every record that is read for the number that
// was written into it.
#ifndef SLICE_TESTS_BENCH_RECORD_STREAM_H
#define SLICE_TESTS_BENCH_RECORD_STREAM_H

#include <cstdint>
#include <string>
#include <vector>

#include "common/bytes.h"

namespace slice::client {

// Blocking; one thread. Everything throws RpcError where the connection breaks or an answer is wrong.
class RecordStream {
 public:
  struct Options {
    std::string server;  // numeric address
    std::uint16_t port = 2049;
    std::string handle;        // of the file, as it is to be sent
    std::uint32_t record = 0;  // bytes of one, a multiple of 16
    std::uint64_t first = 0;   // offset of record 0
    unsigned outstanding = 1;
  };
  explicit RecordStream(const Options& options);
  ~RecordStream();
  RecordStream(const RecordStream&) = delete;
  RecordStream& operator=(const RecordStream&) = delete;

  // Unstable WRITEs of these records, in this order; ends when all are answered.
  void write(const std::vector<std::uint32_t>& numbers);
  void read(const std::vector<std::uint32_t>& numbers);

 private:
  template <class Send, class Check>
  void pass(const std::vector<std::uint32_t>& numbers, Send send, Check check);
  void send(Buffer& call, std::size_t offset_at, std::uint32_t number, ByteView data);
  // The next answer's results, valid until the next one; `xid` is its call's.
  ByteView receive(std::uint32_t& xid);
  void receive_whole(ByteSpan into);

  Options options_;
  int socket_ = -1;
  Buffer read_call_, write_call_;  // with record mark and header; xid and offset are patched in
  Buffer data_, answer_;
};

}  // namespace slice::client

#endif  // SLICE_TESTS_BENCH_RECORD_STREAM_H
