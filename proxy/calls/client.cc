#include "proxy/calls/client.h"

#include <utility>

#include "proxy/calls/call.h"

namespace slice::proxy {

Client::~Client() {
  drop_calls();
}

void Client::drop_calls() {
  while (!calls_.empty()) delete calls_.front();
}

void Client::tell_late(MonoTime then, const std::function<void(const UnderWay&)>& tell) {
  UnderWay* each = calls_.empty() ? nullptr : calls_.front();  // the oldest one
  for (; each != nullptr && each->began < then; each = calls_.after(*each)) {
    if (!std::exchange(each->told, true)) tell(*each);
  }
}

}  // namespace slice::proxy
