#include "proxy/gss/kerberos.h"

#include <grp.h>
#include <gssapi/gssapi_ext.h>
#include <gssapi/gssapi_krb5.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace slice::proxy {
namespace {

constexpr std::size_t kLongestEntry = 1 << 20;  // of an account, with all that a directory service adds
constexpr int kMostGroupsOfAccount = 65536;     // as Linux' NGROUPS_MAX

// The library's words are of bytes without const.
gss_buffer_desc in(ByteView bytes) {
  return {bytes.size(), const_cast<std::uint8_t*>(bytes.data())};
}

// What the library gives, and takes back.
class Given {
 public:
  Given() = default;
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
  ~Given() {
    OM_uint32 minor = 0;
    gss_release_buffer(&minor, &buffer_);
  }
  gss_buffer_t get() { return &buffer_; }
  ByteView view() const { return {static_cast<const std::uint8_t*>(buffer_.value), buffer_.length}; }
  std::string text() const { return std::string(as_text(view())); }

 private:
  gss_buffer_desc buffer_ = GSS_C_EMPTY_BUFFER;
};

void add_words(std::string& out, OM_uint32 code, int kind) {
  OM_uint32 more = 0, minor = 0;
  do {
    Given words;
    if (GSS_ERROR(gss_display_status(&minor, code, kind, GSS_C_NO_OID, &more, words.get()))) return;
    if (!out.empty()) out += ": ";
    out += words.text();
  } while (more != 0);
}

std::string words_of(OM_uint32 major, OM_uint32 minor) {
  std::string out;
  add_words(out, major, GSS_C_GSS_CODE);
  if (minor != 0) add_words(out, minor, GSS_C_MECH_CODE);
  return out;
}

class KerberosContext : public SecurityContext {
 public:
  explicit KerberosContext(gss_ctx_id_t context) : context_(context) {}
  ~KerberosContext() override {
    OM_uint32 minor = 0;
    gss_delete_sec_context(&minor, &context_, GSS_C_NO_BUFFER);
  }
  bool verify(ByteView bytes, ByteView checksum) override {
    gss_buffer_desc message = in(bytes), token = in(checksum);
    OM_uint32 minor = 0;
    return !GSS_ERROR(gss_verify_mic(&minor, context_, &message, &token, nullptr));
  }
  std::optional<Buffer> unwrap(ByteView token) override {
    gss_buffer_desc message = in(token);
    Given plain;
    OM_uint32 minor = 0;
    int encrypted = 0;
    if (GSS_ERROR(gss_unwrap(&minor, context_, &message, plain.get(), &encrypted, nullptr)) || encrypted == 0)
      return std::nullopt;
    return Buffer(plain.view());
  }
  std::optional<Buffer> checksum(ByteView bytes) override {
    gss_buffer_desc message = in(bytes);
    Given token;
    OM_uint32 minor = 0;
    if (GSS_ERROR(gss_get_mic(&minor, context_, GSS_C_QOP_DEFAULT, &message, token.get())))
      return std::nullopt;
    return Buffer(token.view());
  }
  std::optional<Buffer> wrap(ByteView bytes) override {
    gss_buffer_desc message = in(bytes);
    Given token;
    OM_uint32 minor = 0;
    int encrypted = 0;
    constexpr int kEncrypt = 1;
    if (GSS_ERROR(
            gss_wrap(&minor, context_, kEncrypt, GSS_C_QOP_DEFAULT, &message, &encrypted, token.get())) ||
        encrypted == 0)
      return std::nullopt;
    return Buffer(token.view());
  }

 private:
  gss_ctx_id_t context_;
};

class KerberosAcceptor : public ContextAcceptor {
 public:
  explicit KerberosAcceptor(gss_cred_id_t keys) : keys_(keys) {}
  ~KerberosAcceptor() override {
    OM_uint32 minor = 0;
    gss_release_cred(&minor, &keys_);
  }

  Accepted accept(ByteView token) override {
    Accepted out;
    gss_buffer_desc message = in(token);
    gss_ctx_id_t context = GSS_C_NO_CONTEXT;
    gss_name_t user = GSS_C_NO_NAME;
    Given answer;
    OM_uint32 minor = 0, lifetime = 0;
    out.major = gss_accept_sec_context(&minor, &context, keys_, &message, GSS_C_NO_CHANNEL_BINDINGS, &user,
                                       nullptr, answer.get(), nullptr, &lifetime, nullptr);
    out.minor = minor;
    out.token = Buffer(answer.view());
    auto holder = std::make_unique<KerberosContext>(context);
    if (out.major == GSS_S_COMPLETE) {
      out.context = std::move(holder);
      out.lifetime = std::chrono::seconds(lifetime);
      name(user, out);
    } else if (GSS_ERROR(out.major)) {
      out.why = words_of(out.major, minor);
    } else {
      // Kerberos begins with one message; who says more wants what NFS has no use for.
      out.major = GSS_S_FAILURE;
      out.why = "more than one message";
    }
    gss_release_name(&minor, &user);
    return out;
  }

 private:
  static void name(gss_name_t user, Accepted& out) {
    Given text, account;
    OM_uint32 minor = 0;
    if (!GSS_ERROR(gss_display_name(&minor, user, text.get(), nullptr))) out.principal = text.text();
    out.user.uid = out.user.gid = rpc::kNoUser;
    if (GSS_ERROR(gss_localname(&minor, user, GSS_C_NO_OID, account.get()))) {
      out.why = "no rule of krb5.conf makes an account of it";
      return;
    }
    const std::string account_name(account.text().c_str());  // some versions count a zero at its end
    out.user = user_of_account(account_name);
    if (out.user.uid == rpc::kNoUser) out.why = "there is no account '" + account_name + "' here";
  }

  gss_cred_id_t keys_;
};

Status check_file(const std::string& keytab) {
  struct stat facts{};
  if (::stat(keytab.c_str(), &facts) != 0)
    return fail(Errc::kInvalid, "{}: {}", keytab, std::strerror(errno));
  if ((facts.st_mode & (S_IRWXO | S_IWGRP)) != 0)
    return fail(Errc::kInvalid, "{}: others may read or change it: chmod 600", keytab);
  return {};
}

}  // namespace

Result<std::unique_ptr<ContextAcceptor>> make_kerberos_acceptor(const std::string& keytab) {
  SLICE_RETURN_IF_ERROR(check_file(keytab));
  const std::string place = "FILE:" + keytab;
  // Who sends a user's first message again has a context without its key. So none need be remembered, on a
  // disk, for each.
  std::array<gss_key_value_element_desc, 2> where{{{"keytab", place.c_str()}, {"rcache", "none:"}}};
  gss_key_value_set_desc store{where.size(), where.data()};
  gss_OID_set_desc kerberos{1, const_cast<gss_OID>(gss_mech_krb5)};
  gss_cred_id_t keys = GSS_C_NO_CREDENTIAL;
  OM_uint32 minor = 0;
  const OM_uint32 major = gss_acquire_cred_from(&minor, GSS_C_NO_NAME, GSS_C_INDEFINITE, &kerberos,
                                                GSS_C_ACCEPT, &store, &keys, nullptr, nullptr);
  if (GSS_ERROR(major)) return fail(Errc::kInvalid, "{}: {}", keytab, words_of(major, minor));
  return std::make_unique<KerberosAcceptor>(keys);
}

rpc::AuthSys user_of_account(const std::string& name) {
  rpc::AuthSys out{.uid = rpc::kNoUser, .gid = rpc::kNoUser};
  std::vector<char> memory(4096);
  passwd entry{};
  passwd* found = nullptr;
  int error = 0;
  while ((error = ::getpwnam_r(name.c_str(), &entry, memory.data(), memory.size(), &found)) == ERANGE &&
         memory.size() < kLongestEntry) {
    memory.resize(memory.size() * 2);
  }
  if (error != 0 || found == nullptr) return out;
  out.uid = found->pw_uid;
  out.gid = found->pw_gid;
  std::vector<gid_t> groups(64);
  int count = static_cast<int>(groups.size());
  while (::getgrouplist(name.c_str(), found->pw_gid, groups.data(), &count) < 0 &&
         count <= kMostGroupsOfAccount) {
    count = std::max(count, static_cast<int>(groups.size()) * 2);
    groups.resize(static_cast<std::size_t>(count));
  }
  groups.resize(std::min(static_cast<std::size_t>(std::max(count, 0)), groups.size()));
  for (const gid_t group : groups) {
    if (group != out.gid && out.groups.size() < rpc::kMostGroups) out.groups.push_back(group);
  }
  return out;
}

}  // namespace slice::proxy
