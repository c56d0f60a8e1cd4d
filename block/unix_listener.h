// A listening socket that has a path.
#ifndef SLICE_BLOCK_UNIX_LISTENER_H
#define SLICE_BLOCK_UNIX_LISTENER_H

#include <sys/types.h>

#include <string>

#include "common/result.h"

namespace slice::block {

class UnixListener {
 public:
  // For the owner and his group. A socket that a process left there which is gone is replaced. kExists: a
  // process serves it, or it is something else. kInvalid: too long a path. kIo: the system refused.
  static Result<UnixListener> listen(std::string path);

  UnixListener(UnixListener&& other) noexcept;
  UnixListener& operator=(UnixListener&& other) noexcept;
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;
  // Takes the path away, unless it is another's by now.
  ~UnixListener();

  // Non-blocking; the caller's from here on. Once.
  int release();

 private:
  UnixListener(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  void note_file();

  std::string path_;  // empty: of another
  int fd_ = -1;
  dev_t device_ = 0;  // that the path was made on
  ino_t inode_ = 0;
};

}  // namespace slice::block

#endif  // SLICE_BLOCK_UNIX_LISTENER_H
