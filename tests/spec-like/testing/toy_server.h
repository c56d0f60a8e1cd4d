// ToyServer: a small NFSv3 server in memory, with MOUNT, for the generator's own tests. It is right by
// itself; told to lie, it gives wrong answers of one kind, which the generator must notice.
#ifndef SLICE_TESTS_SPEC_LIKE_TESTING_TOY_SERVER_H
#define SLICE_TESTS_SPEC_LIKE_TESTING_TOY_SERVER_H

#include <map>
#include <string>

#include "rpc/server.h"
#include "wire/nfs3.h"

namespace slice::load {

enum class Lie {
  kNone,
  kWrongByte,        // READ gives a changed byte
  kWrongSize,        // GETATTR shows one byte more
  kLostName,         // READDIR and READDIRPLUS leave a file out
  kDoubleName,       // they show one twice
  kFoundName,        // LOOKUP finds names that are not there
  kMissingName,      // LOOKUP does not find some that are
  kLostWrite,        // a second WRITE to a block is acknowledged and forgotten
  kForgottenRemove,  // REMOVE is acknowledged and not done
  kWrongLink,        // READLINK gives another text
  kWrongEof,         // READ never shows the end
  kWrongBefore,      // WRITE shows a size before it that was not
  kGarbage,          // GETATTR's reply is cut off
  kRestart,          // no lie: unstable bytes are lost now and then, as the verifier tells
};

class ToyServer {
 public:
  // Everything on one free port of the loopback, over TCP and UDP.
  ToyServer(rpc::EpollLoop& loop, Lie lie);
  ~ToyServer();
  rpc::Endpoint at() const { return at_; }
  // Files and folders that are there, the root not counted.
  std::size_t objects() const;
  // The server does nothing for so long before its next answer to each call from now on.
  void set_delay(Duration delay);

  class Nfs;

 private:
  class Mount;
  Metrics metrics_;
  rpc::Dispatcher dispatcher_;
  std::unique_ptr<Nfs> nfs_;
  std::unique_ptr<Mount> mount_;
  std::unique_ptr<rpc::Server> server_;
  rpc::Endpoint at_;
};

}  // namespace slice::load

#endif  // SLICE_TESTS_SPEC_LIKE_TESTING_TOY_SERVER_H
