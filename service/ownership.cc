#include "service/ownership.h"

#include <algorithm>
#include <iterator>

#include "rpc/xdr.h"
#include "service/durable_file.h"

namespace slice::service {
namespace {

constexpr const char* kFile = "ownership";
constexpr std::uint32_t kMagic = 0x534c4f57;  // "SLOW"
constexpr std::uint32_t kFormat = 1;

Buffer encoded(const std::vector<wire::OwnedSite>& sites) {
  rpc::XdrWriter out;
  out.u32(kMagic);
  out.u32(kFormat);
  encode(out, sites);
  return out.take();
}

bool decode(ByteView bytes, std::vector<wire::OwnedSite>& out) {
  rpc::XdrReader in(bytes);
  if (in.u32() != kMagic || in.u32() != kFormat) return false;
  out = wire::decode_owned_sites(in);
  return in.complete();
}

std::string some(const std::vector<std::uint32_t>& sites) {
  return sites.size() == 1 ? fmt::format("site {}", sites.front())
                           : fmt::format("site {} and {} others", sites.front(), sites.size() - 1);
}

}  // namespace

Task<Status> Ownership::load() {
  auto contents = co_await read_file(disk_, kFile);
  if (!contents && contents.error().code == Errc::kNotFound) co_return Status{};
  if (!contents) co_return fail(std::move(contents).error());
  std::vector<wire::OwnedSite> sites;
  if (!decode(contents->view(), sites)) {
    co_return fail(Errc::kCorrupt, "{}: it does not decode, or is of another format than {}", kFile, kFormat);
  }
  record_ = std::move(sites);
  co_return Status{};
}

std::uint64_t Ownership::digest() const {
  return record_ ? wire::digest(wire::numbers_of(*record_)) : 0;
}

Task<Status> Ownership::grant(const wire::Tables& tables) {
  std::vector<wire::OwnedSite> sites;
  for (std::uint32_t site : wire::sites_of(tables, self_.name)) sites.push_back({site, tables.generation});
  SLICE_CO_RETURN_IF_ERROR(co_await replace_file(disk_, kFile, encoded(sites)));
  record_ = std::move(sites);
  co_return Status{};
}

Status Ownership::check(const wire::Tables& tables) const {
  if (!record_) return {};
  const std::vector<std::uint32_t> own = wire::numbers_of(*record_),
                                   said = wire::sites_of(tables, self_.name);
  std::vector<std::uint32_t> taken, given;
  std::set_difference(own.begin(), own.end(), said.begin(), said.end(), std::back_inserter(taken));
  std::set_difference(said.begin(), said.end(), own.begin(), own.end(), std::back_inserter(given));
  if (!taken.empty()) {
    return fail(Errc::kInvalid, "they have {} at another server, but this one has the data", some(taken));
  }
  if (!given.empty()) return fail(Errc::kInvalid, "they have {} here, which never came here", some(given));
  return {};
}

}  // namespace slice::service
