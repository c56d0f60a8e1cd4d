#include "proxy/calls/secured_calls.h"

#include <cstring>
#include <utility>

#include "proxy/calls/call.h"
#include "proxy/calls/call_router.h"

namespace slice::proxy {
namespace {

using Refused = GssService::Refused;
using rpc::AuthStat;

constexpr std::size_t kFlavorAt = SLICE_CALL_CREDENTIAL;
// Of a reply's record: mark, xid, REPLY, accepted; the verifier; the status, and what is behind it.
constexpr std::size_t kAcceptedAt = 12, kVerifierAt = 16, kStatAt = 24, kResultsAt = 28;

// Flavor, length and checksum, as calls and replies have them.
void put_verifier(rpc::XdrWriter& out, ByteView checksum) {
  out.u32(rpc::kAuthGss);
  out.opaque(checksum);
}

// What a reply shows to be its call's: the number's checksum (RFC 2203 section 5.3.3.2).
std::optional<Buffer> checksum_of(GssContext& context, std::uint32_t number) {
  std::uint8_t word[4];
  store_be(word, number);
  return context.checksum(word);
}

// An accepted reply's record up to its status.
void begin_reply(rpc::XdrWriter& out, Xid xid, ByteView checksum) {
  out.u32(0);  // the mark
  out.u32(xid.value);
  out.u32(SLICE_RPC_REPLY);
  out.u32(0);  // accepted
  checksum.empty() ? out.u64(0) : put_verifier(out, checksum);
}

rpc::XdrWriter denial(Xid xid, AuthStat why) {
  rpc::XdrWriter out;
  out.u32(0);  // the mark
  rpc::encode_auth_error(out, xid, why);
  return out;
}

}  // namespace

// One that was opened: to its call it is the client, to its client a call.
class SecuredCalls::Opened : public UnderWay, private Client {
 public:
  Opened(Services& services, Client& outer, const Head& head)
      : UnderWay(services.plumbing.loop.now()),
        services_(services),
        outer_(outer),
        context_(head.context),
        sequence_(head.credential.sequence),
        service_(head.credential.service) {
    outer.adopt(*this);
  }
  // Its call goes first, while it can be told what that held.
  ~Opened() override {
    ends_ = true;
    drop_calls();
  }

  std::string about() const override {
    return "by Kerberos, " + (has_calls() ? oldest().about() : std::string("no call"));
  }

  // False: it is no call, and nothing is under way.
  bool start(CallRouter& router, const BufferChain& plain, std::uint32_t largest_transfer) {
    return router.take(*this, plain, largest_transfer);  // may have ended it
  }

 private:
  rpc::Endpoint endpoint() const override { return outer_.endpoint(); }
  CallSecurity security() const override {
    return {.transport = outer_.security().transport, .flavor = rpc::flavor_of(service_)};
  }
  void charge(std::size_t bytes) override { outer_.charge(bytes); }
  void release(std::size_t bytes) override { outer_.release(bytes); }
  void set_aside(std::size_t bytes) override { outer_.set_aside(bytes); }
  void take_back(std::size_t bytes) override { outer_.take_back(bytes); }
  void call_begins() override { outer_.call_begins(); }
  void call_ends() override {
    outer_.call_ends();
    if (!ends_) delete this;
  }
  void reply(Call& call, const BufferChain& record) override {
    if (const std::optional<BufferChain> closed = close(record)) {
      outer_.reply(call, *closed);
    } else {
      outer_.give_up("a reply cannot be closed for its user");
    }
  }

  // Nothing where the context makes no checksums any more.
  std::optional<BufferChain> close(const BufferChain& record) const {
    std::uint8_t scratch[kResultsAt];
    const ByteView head = record.head(sizeof scratch, scratch);
    const bool accepted = head.size() == sizeof scratch &&
                          load_be<std::uint32_t>(head.data() + kAcceptedAt) == 0 &&
                          load_be<std::uint64_t>(head.data() + kVerifierAt) == 0;
    if (!accepted) return record;  // denied: without a verifier
    const std::optional<Buffer> checksum = checksum_of(*context_, sequence_);
    if (!checksum) return std::nullopt;
    rpc::XdrWriter out;
    begin_reply(out, Xid{load_be<std::uint32_t>(head.data() + 4)}, checksum->view());
    const auto stat = load_be<std::uint32_t>(head.data() + kStatAt);
    out.u32(stat);
    BufferChain results = record.sub(kResultsAt, record.size() - kResultsAt);
    const bool plain = stat != 0 || service_ == rpc::GssService::kNone;
    if (!plain && !close_results(results, out)) return std::nullopt;
    const std::size_t rest = plain ? results.size() : 0;
    out.patch_u32(0, rpc::kLastFragment | static_cast<std::uint32_t>(out.size() - 4 + rest));
    BufferChain closed;
    closed.append(services_.plumbing.pool.adopt(out.take()));
    if (plain) closed.append(results);
    return closed;
  }

  bool close_results(const BufferChain& results, rpc::XdrWriter& out) const {
    if (service_ == rpc::GssService::kIntegrity) {
      const ByteSpan covered = out.reserve_opaque(4 + results.size());
      fill(covered, results);
      const std::optional<Buffer> checksum = context_->checksum(covered);
      if (checksum) out.opaque(checksum->view());
      return checksum.has_value();
    }
    Buffer body(4 + results.size());
    fill(body.span(), results);
    const std::optional<Buffer> token = context_->wrap(body.view());
    if (token) out.opaque(token->view());
    return token.has_value();
  }

  void fill(ByteSpan into, const BufferChain& results) const {
    store_be(into.data(), sequence_);
    results.copy_to(into.data() + 4);
  }

  Services& services_;
  Client& outer_;
  const std::shared_ptr<GssContext> context_;
  const std::uint32_t sequence_;
  const rpc::GssService service_;
  bool ends_ = false;
};

// A first message whose context is being made.
class SecuredCalls::Making : public UnderWay {
 public:
  Making(MonoTime now, std::shared_ptr<Waiting> all, std::uint64_t number, Client& client, std::size_t bytes)
      : UnderWay(now), all_(std::move(all)), number_(number), client_(client), bytes_(bytes) {
    client.adopt(*this);
    client.call_begins();
    client.charge(bytes_);
    all_->emplace(number_, this);
  }
  ~Making() override {
    all_->erase(number_);
    client_.release(bytes_);
    client_.call_ends();
  }
  Client& client() { return client_; }
  std::string about() const override { return "a security context waits to be made"; }

 private:
  const std::shared_ptr<Waiting> all_;
  const std::uint64_t number_;
  Client& client_;
  const std::size_t bytes_;
};

SecuredCalls::SecuredCalls(Services& services, CallRouter& router, GssService* gss)
    : services_(services), router_(router), gss_(gss) {}

bool SecuredCalls::is_one(ByteView head) {
  return head.size() >= kFlavorAt + 4 && load_be<std::uint32_t>(head.data() + kFlavorAt) == rpc::kAuthGss;
}

void SecuredCalls::deny(Client& client, Xid xid, AuthStat why) {
  rpc::XdrWriter out = denial(xid, why);
  answer_with(services_, client, out);
}

std::optional<AuthStat> SecuredCalls::read(const Client& client, ByteView head, Head& out) const {
  const auto credential = rpc::decode_gss_credential({out.call.credential, out.call.credential_length});
  if (!credential) {
    gss_->note(Refused::kCredential, client.endpoint(), "it is malformed");
    return AuthStat::kBadCredential;
  }
  out.credential = *credential;
  if (credential->procedure == rpc::GssProcedure::kInit) return std::nullopt;
  out.context = gss_->contexts().find(credential->handle, services_.plumbing.loop.now());
  if (out.context == nullptr) {
    // After a restart of the proxy, or at another one, every client's: each makes a new one.
    gss_->note(Refused::kContext, client.endpoint(), "it is not known here, or has ended");
    return AuthStat::kGssCredentialProblem;
  }
  return verify(client, head, out);
}

// Section 5.3.3.1.
std::optional<AuthStat> SecuredCalls::verify(const Client& client, ByteView head, const Head& of) const {
  const std::uint8_t* at = of.call.credential + rpc::xdr_padded(of.call.credential_length);
  const ByteView covered{head.data(), static_cast<std::size_t>(at - head.data())};
  rpc::XdrReader in(head.subspan(covered.size()));
  const std::uint32_t flavor = in.u32();
  const ByteView checksum = in.opaque(rpc::kMaxAuthBody);
  if (flavor != rpc::kAuthGss || !in.ok() || !of.context->verify(covered, checksum)) {
    gss_->note(Refused::kVerifier, client.endpoint(), "its header is not the user's");
    return AuthStat::kGssCredentialProblem;
  }
  if (of.credential.sequence <= rpc::kGssMaxSequence) return std::nullopt;
  gss_->note(Refused::kSequence, client.endpoint(), "its context is used up");
  return AuthStat::kGssContextProblem;
}

bool SecuredCalls::take(Client& client, const BufferChain& message, ByteView head,
                        std::uint32_t largest_transfer) {
  Head read_head;
  const std::uint32_t outcome =
      slice_parse_call_header(head.data(), head.data() + head.size(), &read_head.call);
  if (outcome != 0) {
    services_.count(outcome);
    return router_.answer(client, read_head.call, outcome, head);
  }
  const Xid xid{read_head.call.xid};
  if (gss_ == nullptr || !client.may_be_secured()) {
    if (gss_ != nullptr) gss_->note(Refused::kDatagram, client.endpoint(), "it came over UDP");
    deny(client, xid, AuthStat::kRejectedCredential);
    return true;
  }
  if (const auto wrong = read(client, head, read_head)) {
    deny(client, xid, *wrong);
    return true;
  }
  const auto at = static_cast<std::size_t>(read_head.call.arguments - head.data());
  switch (read_head.credential.procedure) {
    case rpc::GssProcedure::kInit:
      return init(client, message.sub(at, message.size() - at), read_head);
    case rpc::GssProcedure::kContinueInit:
      deny(client, xid, AuthStat::kGssCredentialProblem);  // one message is enough for Kerberos
      return true;
    case rpc::GssProcedure::kDestroy:
    case rpc::GssProcedure::kData:
      break;
  }
  if (!read_head.context->take(read_head.credential.sequence)) {
    gss_->note(Refused::kSequence, client.endpoint(), "it was taken already, or is too old");
    return true;  // without an answer, as the section says
  }
  if (read_head.credential.procedure == rpc::GssProcedure::kDestroy) {
    destroy(client, read_head);
    return true;
  }
  const std::optional<BufferChain> arguments = open(message, at, read_head);
  if (!arguments) {
    refuse_body(client, read_head);
    return true;
  }
  // The same call as it would be without Kerberos.
  rpc::XdrWriter header;
  header.fixed(head.first(kFlavorAt));
  header.fixed(read_head.context->credential());
  header.u64(0);  // AUTH_NONE
  BufferChain plain;
  plain.append(services_.plumbing.pool.copy(header.view()));
  plain.append(*arguments);
  auto* opened = new Opened(services_, client, read_head);
  const bool is_call = opened->start(router_, plain, largest_transfer);
  if (!is_call) delete opened;
  return is_call;
}

std::optional<BufferChain> SecuredCalls::open(const BufferChain& message, std::size_t at,
                                              const Head& head) const {
  BufferChain body = message.sub(at, message.size() - at);
  if (head.credential.service == rpc::GssService::kNone) return body;
  ChunkPool& pool = services_.plumbing.pool;
  if (body.slices().size() > 1) {  // checksums are made of bytes in one run
    std::uint8_t* into = nullptr;
    BufferRef whole = pool.place(body.size(), into);
    body.copy_to(into);
    body.clear();
    body.append(std::move(whole));
  }
  if (body.empty()) return std::nullopt;
  const BufferRef& all = body.slices().front();
  BufferChain out;
  if (head.credential.service == rpc::GssService::kIntegrity) {
    const auto parts = rpc::decode_gss_integrity(all.view());
    if (!parts || !head.context->verify(parts->covered, parts->checksum)) return std::nullopt;
    const auto arguments = rpc::gss_body(parts->covered, head.credential.sequence);
    if (!arguments) return std::nullopt;
    if (!arguments->empty())
      out.append(all.sub(static_cast<std::size_t>(arguments->data() - all.data), arguments->size()));
    return out;
  }
  const auto token = rpc::decode_gss_privacy(all.view());
  std::optional<Buffer> opened = token ? head.context->unwrap(*token) : std::nullopt;
  const auto arguments = opened ? rpc::gss_body(opened->view(), head.credential.sequence) : std::nullopt;
  if (!arguments) return std::nullopt;
  const auto skip = static_cast<std::size_t>(arguments->data() - opened->data());
  const std::size_t size = arguments->size();
  if (size > 0) out.append(pool.adopt(std::move(*opened)).sub(skip, size));
  return out;
}

void SecuredCalls::refuse_body(Client& client, const Head& head) {
  gss_->note(Refused::kBody, client.endpoint(), "its arguments are not as the user sent them");
  const auto checksum = checksum_of(*head.context, head.credential.sequence);
  rpc::XdrWriter out;
  begin_reply(out, Xid{head.call.xid}, checksum ? checksum->view() : ByteView{});
  out.u32(static_cast<std::uint32_t>(rpc::AcceptStat::kGarbageArguments));
  answer_with(services_, client, out);
}

void SecuredCalls::destroy(Client& client, const Head& head) {
  const auto checksum = checksum_of(*head.context, head.credential.sequence);
  gss_->contexts().remove(*head.context);
  rpc::XdrWriter out;
  begin_reply(out, Xid{head.call.xid}, checksum ? checksum->view() : ByteView{});
  out.u32(static_cast<std::uint32_t>(rpc::AcceptStat::kSuccess));
  answer_with(services_, client, out);
}

bool SecuredCalls::init(Client& client, const BufferChain& message, const Head& head) {
  const Xid xid{head.call.xid};
  Buffer bytes(message.size());
  message.copy_to(bytes.data());
  rpc::XdrReader in(bytes.view());
  const ByteView token = in.opaque(rpc::kMaxGssToken);
  if (!in.complete() || head.call.procedure != SLICE_NFS_NULL ||
      !router_.is_exported_to(client.endpoint().address)) {
    gss_->note(Refused::kToken, client.endpoint(),
               "a first message is malformed, or no export names who sends it");
    deny(client, xid, AuthStat::kBadCredential);
    return true;
  }
  const std::uint64_t number = ++made_;
  const auto done = [this, number, xid,
                     all = std::weak_ptr<Waiting>(waiting_)](const GssService::Made& made) {
    const auto waiting = all.lock();
    if (waiting == nullptr) return;
    const auto found = waiting->find(number);
    if (found == waiting->end()) return;
    Making* making = found->second;
    answer_init(making->client(), xid, made);
    delete making;
  };
  if (!gss_->accept(services_.plumbing.loop, client.endpoint(), Buffer(token), done)) {
    gss_->note(Refused::kBusy, client.endpoint(), "too many users come at once");
    return true;  // it asks again
  }
  new Making(services_.plumbing.loop.now(), waiting_, number, client, token.size());
  return true;
}

// Section 5.2.3.1.
void SecuredCalls::answer_init(Client& client, Xid xid, const GssService::Made& made) {
  rpc::GssInitResult result{.major = made.major, .minor = made.minor, .token = made.token.view()};
  std::optional<Buffer> checksum;
  if (made.context != nullptr) {
    result.handle = made.context->handle;
    result.window = GssContext::kWindow;
    checksum = checksum_of(*made.context, result.window);
  }
  rpc::XdrWriter out;
  begin_reply(out, xid, checksum ? checksum->view() : ByteView{});
  out.u32(static_cast<std::uint32_t>(rpc::AcceptStat::kSuccess));
  encode(out, result);
  answer_with(services_, client, out);
}

std::optional<Buffer> SecuredCalls::refuse(const Client& client, ByteView head) const {
  Head read_head;
  const std::uint32_t outcome =
      slice_parse_call_header(head.data(), head.data() + head.size(), &read_head.call);
  if (outcome != 0) return std::nullopt;  // answered by take()
  std::optional<AuthStat> wrong = AuthStat::kRejectedCredential;
  if (gss_ != nullptr && client.may_be_secured()) wrong = read(client, head, read_head);
  if (gss_ != nullptr && !wrong && read_head.context == nullptr)
    wrong = AuthStat::kBadCredential;  // no first message is as long
  if (!wrong) return std::nullopt;
  rpc::XdrWriter out = denial(Xid{read_head.call.xid}, *wrong);
  return marked(out);
}

}  // namespace slice::proxy
