// What the renderers of slicectl share: columns of text, JSON, and words for what they show. For them, and
// for who shows the same elsewhere.
#ifndef SLICE_CONTROL_SLICECTL_RENDER_PARTS_H
#define SLICE_CONTROL_SLICECTL_RENDER_PARTS_H

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "control/slicectl/queries.h"
#include "wire/manager.h"

namespace slice::slicectl {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json);
// Columns as wide as their widest cell, two spaces between, no spaces at line ends.
std::string table(const std::vector<std::vector<std::string>>& rows);
// "1-3, 7": what a person can read of many numbers, in order; `most` ranges of them.
std::string ranges_text(const std::vector<std::uint64_t>& numbers, std::size_t most);
// What render_where() shows as JSON.
Json where_json(const EnsembleConfig& config, const Where& where);
// As the tables have it; "server 7" where they have none of that number.
std::string name_of(const routing::RoutingTables& tables, std::uint32_t server);
std::string_view role_text(wire::Role role);
std::string age_text(std::uint64_t milliseconds);
// What an operator has said of a member, as JSON: beside what names it.
void add_said(Json& json, const wire::ServerEntry& entry);
// The same in words; empty where nothing was said.
std::string said_text(const wire::ServerEntry& entry);

}  // namespace slice::slicectl

#endif  // SLICE_CONTROL_SLICECTL_RENDER_PARTS_H
