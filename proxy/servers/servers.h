// Servers: where calls send their legs.
#ifndef SLICE_PROXY_SERVERS_SERVERS_H
#define SLICE_PROXY_SERVERS_SERVERS_H

namespace slice::proxy {

struct Leg;
class BackendConnection;

class Servers {
 public:
  virtual ~Servers() = default;
  // Sends a whole leg to the server that has its site now; keeps it while there is none. Its owner hears of
  // the reply, unless it destroys the leg before.
  virtual void send(Leg& leg) = 0;
  // Begins a leg whose request's bytes still come, on a connection that takes no other until its end; null
  // where the leg can only be sent when it is whole.
  virtual BackendConnection* begin_upload(Leg& leg) = 0;
};

}  // namespace slice::proxy

#endif  // SLICE_PROXY_SERVERS_SERVERS_H
