// CopyTable: the pinned table `copies` of a proxy (docs/formats/maps.md): whom the XDP program sends READs of
// mirrored files to. Follows the table `sites`, and asks every storage server twice a second whether it is
// there: one that does not answer is in no entry until it does. While mirrored files may lie elsewhere than
// `sites` says, all entries are 0, and user space finds copies. One loop.
#ifndef SLICE_CONTROL_PROXYD_COPY_TABLE_H
#define SLICE_CONTROL_PROXYD_COPY_TABLE_H

#include <set>

#include "proxy/tables/tables.h"
#include "service/context.h"

namespace slice::proxy {

class CopyTable {
 public:
  static constexpr Duration kStep = std::chrono::milliseconds(500);
  // Until a server counts as silent; where its host refuses connections, less.
  static constexpr Duration kPatience = std::chrono::milliseconds(1500);
  static constexpr Duration kRefusedPatience = std::chrono::milliseconds(500);

  // `context` outlives it.
  explicit CopyTable(service::ServiceContext& context);

  // Writes into `tables` from now on, which outlive it; where they have no table `copies`, never.
  void keep(Tables tables);

 private:
  void look_and_wait();
  static Task<void> ask(CopyTable& self, std::uint32_t server, rpc::Endpoint at);
  void heard(std::uint32_t server, bool answers);
  void write();
  std::uint64_t entry_of(std::uint32_t site) const;

  service::ServiceContext& context_;
  Tables tables_;
  // By index.
  std::set<std::uint32_t> asked_;  // whose answer is due
  std::set<std::uint32_t> silent_;
  Gauge& silent_now_;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_COPY_TABLE_H
