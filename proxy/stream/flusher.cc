#include "proxy/stream/flusher.h"

namespace slice::proxy {

Flusher::Flusher(Loop& loop) : round_end_(loop.at_round_end([this] { flush(); })) {}

void Flusher::flush() {
  while (!waiting_.empty()) {
    Flushable* who = waiting_.front();
    who->ListHook<FlushTag>::unlink();
    who->flush();
  }
}

}  // namespace slice::proxy
