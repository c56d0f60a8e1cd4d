// back_off: how long what failed waits before it is tried again.
#ifndef SLICE_DIRSERVER_ACROSS_BACK_OFF_H
#define SLICE_DIRSERVER_ACROSS_BACK_OFF_H

#include <algorithm>

#include "common/loop.h"

namespace slice::dirserver {

// The pause before try number `tries` (from 1) of something that failed.
inline Duration back_off(unsigned tries) {
  Duration pause = std::chrono::milliseconds(50);
  for (; tries > 1 && pause < std::chrono::seconds(5); --tries) pause *= 2;
  return std::min<Duration>(pause, std::chrono::seconds(5));
}

}  // namespace slice::dirserver

#endif  // SLICE_DIRSERVER_ACROSS_BACK_OFF_H
