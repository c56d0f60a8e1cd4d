// Certificates for tests, made on the spot: an authority, what it signs, and its list of revoked ones, as PEM
// files.
#ifndef SLICE_RPC_TESTING_CERTIFICATES_H
#define SLICE_RPC_TESTING_CERTIFICATES_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/config.h"

namespace slice::rpc::testing {

class Authority {
 public:
  // Its files are in `folder`, which is there.
  explicit Authority(std::string folder, const std::string& name = "authority")
      : folder_(std::move(folder)), name_(name), key_(EVP_EC_gen("P-256")) {
    certificate_ = make(name, key_.get(), "", 86'400);
    extend(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
    sign(certificate_.get());
    write(path(".crt"), [&](FILE* to) { PEM_write_X509(to, certificate_.get()); });
    list_revoked();
  }
  // A certificate for these addresses ("IP:127.0.0.1"), valid for so many seconds from now, and its key.
  TlsConfig issue(const std::string& host, const std::string& addresses = "IP:127.0.0.1",
                  long seconds = 3600) {
    Key key(EVP_EC_gen("P-256"));
    issued_.push_back(make(host, key.get(), addresses, seconds));
    sign(issued_.back().get());
    TlsConfig files{.certificate = folder_ + "/" + host + ".crt",
                    .key = folder_ + "/" + host + ".key",
                    .authority = path(".crt"),
                    .revoked = path(".crl")};
    write(files.certificate, [&](FILE* to) { PEM_write_X509(to, issued_.back().get()); });
    write(files.key,
          [&](FILE* to) { PEM_write_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
    return files;
  }
  // The last one that was issued.
  void revoke() {
    revoked_.push_back(serial_);
    list_revoked();
  }
  std::string path(const char* ending) const { return folder_ + "/" + name_ + ending; }

 private:
  struct Free {
    void operator()(X509* of) const { X509_free(of); }
    void operator()(EVP_PKEY* of) const { EVP_PKEY_free(of); }
    void operator()(X509_CRL* of) const { X509_CRL_free(of); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  template <class Write>
  static void write(const std::string& path, const Write& what) {
    FILE* to = std::fopen(path.c_str(), "w");
    what(to);
    std::fclose(to);
    ::chmod(path.c_str(), 0600);
  }
  Certificate make(const std::string& name, EVP_PKEY* key, const std::string& addresses, long seconds) {
    Certificate made(X509_new());
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), std::min(0L, seconds) - 60);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), seconds);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_pubkey(made.get(), key);
    if (!addresses.empty()) extend(made.get(), NID_subject_alt_name, addresses.c_str());
    return made;
  }
  static void extend(X509* certificate, int what, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  void sign(X509* certificate) {
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate_ ? certificate_.get() : certificate));
    X509_sign(certificate, key_.get(), EVP_sha256());
  }
  void list_revoked() {
    std::unique_ptr<X509_CRL, Free> list(X509_CRL_new());
    X509_CRL_set_version(list.get(), 1);
    X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(certificate_.get()));
    ASN1_TIME* time = X509_gmtime_adj(nullptr, -60);
    X509_CRL_set1_lastUpdate(list.get(), time);
    for (long serial : revoked_) {
      X509_REVOKED* entry = X509_REVOKED_new();
      ASN1_INTEGER* number = ASN1_INTEGER_new();
      ASN1_INTEGER_set(number, serial);
      X509_REVOKED_set_serialNumber(entry, number);
      ASN1_INTEGER_free(number);
      X509_REVOKED_set_revocationDate(entry, time);
      X509_CRL_add0_revoked(list.get(), entry);
    }
    X509_gmtime_adj(time, 3600);
    X509_CRL_set1_nextUpdate(list.get(), time);
    ASN1_TIME_free(time);
    X509_CRL_sign(list.get(), key_.get(), EVP_sha256());
    write(path(".crl"), [&](FILE* to) { PEM_write_X509_CRL(to, list.get()); });
  }

  const std::string folder_, name_;
  Key key_;
  Certificate certificate_;
  long serial_ = 0;
  std::vector<Certificate> issued_;
  std::vector<long> revoked_;
};

}  // namespace slice::rpc::testing

#endif  // SLICE_RPC_TESTING_CERTIFICATES_H
