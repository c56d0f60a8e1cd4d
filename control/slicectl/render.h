// How slicectl shows what it was told: text for people, JSON for programs (docs/operations.md lists the
// fields).
#ifndef SLICE_CONTROL_SLICECTL_RENDER_H
#define SLICE_CONTROL_SLICECTL_RENDER_H

#include <string>
#include <string_view>
#include <vector>

#include "control/slicectl/comparison.h"
#include "control/slicectl/queries.h"
#include "control/slicectl/rebalance.h"

namespace slice::slicectl {

enum class Format { kText, kJson };

std::string render_servers(const EnsembleConfig& config, const routing::RoutingTables& tables, Format format);
// `every_site`: one line a site, in text; JSON always has them.
std::string render_tables(const routing::RoutingTables& tables, bool every_site, Format format);
std::string render_reload(const wire::ReloadResult& reload, Format format);
std::string render_change(const wire::ChangeServerResult& change, Format format);
std::string render_comparison(Generation generation, const std::vector<ComparedProcess>& processes,
                              Format format);
// `match`: only metrics whose name contains it.
std::string render_metrics(const std::vector<ProcessMetrics>& processes, std::string_view match,
                           Format format);
std::string render_where(const EnsembleConfig& config, const Where& where, Format format);
std::string render_check(const EnsembleConfig& config, Format format);

// Of a stripe: where it is now.
std::string render_moved(const std::string& path, std::uint64_t stripe, const std::string& server,
                         Format format);
std::string render_begun(const std::vector<wire::MoveId>& moves, Format format);
// What a rebalance moves, or would move, of one class.
struct Plan {
  wire::Role site_class = wire::Role::kStorage;
  std::vector<SitesToMove> moves;
};
std::string render_plan(const routing::RoutingTables& tables, const Plan& plan, Format format);
std::string render_plans(const routing::RoutingTables& tables, const std::vector<Plan>& plans, Format format);
// Moves of sites, and what coordinators even out.
std::string render_moves(const routing::RoutingTables& tables, const wire::MovesListResult& moves,
                         const std::vector<Spread>& spreads, Format format);
std::string render_backing(const routing::RoutingTables& tables, const wire::BackingSetsResult& backing,
                           const wire::StandbysResult& standbys, Format format);
// `serves`: a process there says so.
std::string render_failover(const std::string& server, const wire::FailoverResult& done, bool serves,
                            Format format);
std::string render_settings(const wire::MoveSettings& settings, Format format);

// "1.5 GiB"; exact below 1 KiB.
std::string bytes_text(std::uint64_t bytes);

std::string render_policy(const EnsembleConfig& config, const std::string& path,
                          const wire::FilePolicy& policy, Format format);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_RENDER_H
