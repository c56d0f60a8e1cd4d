#include "proxy/servers/probe.h"

#include <utility>

namespace slice::proxy {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPatience = 1500ms;  // with connecting and answer

}  // namespace

Probe::Probe(Plumbing plumbing, rpc::Endpoint to, CallEncoder& encoder, Listener& listener)
    : plumbing_(plumbing), to_(to), encoder_(encoder), listener_(listener) {}

Probe::~Probe() = default;

void Probe::ask() {
  if (question_ != nullptr) return;
  if (connection_ == nullptr || connection_->closed()) {
    connection_ =
        std::make_unique<BackendConnection>(plumbing_, to_, static_cast<BackendConnection::Listener&>(*this));
    if (!connection_->open()) return listener_.on_dead("cannot connect");
  }
  asked_at_ = plumbing_.loop.now();
  send();
}

void Probe::send() {
  question_ = std::make_unique<Leg>(static_cast<LegOwner&>(*this));
  if (!plumbing_.legs.add(*question_)) {  // as many calls are under way as can be: the next time
    question_.reset();
    return;
  }
  question_->request = encoder_.encode(Origin{}, question_->xid, 0, {}, {}, 0);
  question_->request_size = question_->request.size();
  connection_->send(*question_);
}

void Probe::tick() {
  if (question_ != nullptr && plumbing_.loop.now() - asked_at_ > kPatience) connection_->fail("silent");
}

void Probe::rest() {
  if (question_ == nullptr) connection_.reset();
}

void Probe::on_reply(Leg&, const BufferChain&) {
  question_.reset();
  answered_at_ = plumbing_.loop.now();
  listener_.on_alive();
}

void Probe::on_broken(BackendConnection&, IntrusiveList<Leg, LegTag>&, std::string_view why) {
  bool asked = question_ != nullptr;
  question_.reset();
  if (asked) listener_.on_dead(why);
}

}  // namespace slice::proxy
