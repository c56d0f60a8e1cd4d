#include "proxy/calls/client.h"

#include "proxy/calls/call.h"

namespace slice::proxy {

Client::~Client() {
  drop_calls();
}

void Client::drop_calls() {
  while (!calls_.empty()) delete calls_.front();
}

}  // namespace slice::proxy
