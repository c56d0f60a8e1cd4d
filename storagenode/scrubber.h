// Scrubber: reads every object again and again, slowly, so that corruption is found (counted and logged with
// object and offset) before somebody needs the bytes. One loop.
#ifndef SLICE_STORAGENODE_SCRUBBER_H
#define SLICE_STORAGENODE_SCRUBBER_H

#include "storagenode/object_store.h"

namespace slice::storagenode {

class Scrubber {
 public:
  struct Options {
    std::uint64_t bytes_per_second = 16 << 20;
    Duration between_passes = std::chrono::hours(24);
  };
  Scrubber(ObjectStore& store, Options options) : store_(store), options_(options) {}

  void start();
  // Ends soon after; before it is destroyed.
  Task<void> stop();

 private:
  Task<void> run();
  Task<void> pass();
  Task<void> scrub_object(ObjectName name);
  Task<void> pause(Duration time);

  ObjectStore& store_;
  Options options_;
  bool running_ = false;
  bool stopping_ = false;
};

}  // namespace slice::storagenode

#endif  // SLICE_STORAGENODE_SCRUBBER_H
