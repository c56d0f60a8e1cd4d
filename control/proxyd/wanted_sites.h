// WantedSites: the pinned table `wanted` of a proxy (docs/formats/maps.md): whoever writes a server's number
// into a site's entry there, with bpftool, asks for the move of that site to that server, data and all. Looks
// into the table once a second, asks the manager for what it finds, and clears an entry when `sites` shows
// what was wanted, or when that cannot be. What the manager cannot take now is asked for again. Another proxy
// may have the same entry: the move is one. One loop.
#ifndef SLICE_CONTROL_PROXYD_WANTED_SITES_H
#define SLICE_CONTROL_PROXYD_WANTED_SITES_H

#include <map>
#include <string>
#include <vector>

#include "common/log.h"
#include "proxy/tables/tables.h"
#include "service/context.h"
#include "service/managers.h"
#include "wire/moves.h"

namespace slice::proxy {

class WantedSites {
 public:
  static constexpr Duration kStep = std::chrono::seconds(1);

  // `context` outlives it.
  explicit WantedSites(service::ServiceContext& context);

  // Looks into `tables` from now on, which outlive it; where they have no table `wanted`, never.
  void keep(Tables tables);

 private:
  // An entry, as it was read.
  struct Wish {
    std::uint32_t key = 0;
    wire::Role site_class = wire::Role::kDirectory;
    std::uint32_t site = 0;
    std::uint32_t server = 0;  // its number in the table: from 1
  };
  // What became of it.
  struct Asked {
    std::uint32_t server = 0;         // as in the entry: another one there is another wish
    std::vector<wire::MoveId> moves;  // one of which brings the site there
  };

  void look_and_wait();
  static Task<void> look(WantedSites& self);
  // The entries that may be fulfilled; those that cannot have been cleared.
  std::vector<Wish> read();
  // Why it can never be; empty: it might.
  std::string objection(const Wish& wish) const;
  bool is_there(const Wish& wish) const;  // by the tables that `sites` has
  // Whether the entry is to be asked for: the site is elsewhere, and no move goes on that has it. One that is
  // fulfilled, or was given up, is cleared.
  bool is_to_be_asked(const Wish& wish, const wire::MovesListResult& moves);
  Task<void> ask(std::vector<Wish> wishes);
  Task<Result<wire::StartMovesResult>> start_moves(const std::vector<Wish>& wishes);
  void refuse(const Wish& wish, std::string_view why);
  // Takes the entry away, where it is still the one that was read.
  void clear(const Wish& wish);

  service::ServiceContext& context_;
  service::Managers managers_;
  Tables tables_;
  std::map<std::uint32_t, Asked> asked_;  // by key
  LogLimiter refused_log_{20}, silence_log_{1}, done_log_{20};
  Counter &asked_total_, &done_, &refused_;
};

}  // namespace slice::proxy

#endif  // SLICE_CONTROL_PROXYD_WANTED_SITES_H
