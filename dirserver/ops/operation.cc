#include "dirserver/ops/operation.h"

namespace slice::dirserver {

using NfsStatus = nfs3::Status;

NfsStatus check_name(std::string_view name) {
  if (name.size() > nfs3::kMaxName) return NfsStatus::kNameTooLong;
  if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos) return NfsStatus::kInval;
  return NfsStatus::kOk;
}

bool dot_or_dot_dot(std::string_view name) {
  return name == "." || name == "..";
}

bool may(const Identity& who, const AttributeCell& cell, unsigned wanted) {
  return service::may(who, {attributes_of(cell, VolumeId{}), cell.access.get()}, wanted);
}

bool sticky_keeps(const Identity& who, const AttributeCell& directory, const AttributeCell& cell) {
  constexpr std::uint32_t sticky = 01000;
  return (directory.mode & sticky) != 0 && !who.superuser() && who.uid != cell.uid &&
         who.uid != directory.uid;
}

bool may_go_up(const NameSpace& names, const rpc::Call& call, const AttributeCell& directory,
               const AttributeCell& above) {
  return above.self.tree == directory.self.tree ||
         service::identify(*names.settings(), above.self.tree, call).has_value();
}

Task<NfsAnswer> answer_shown(NameSpace& names, NfsRequest& request, storage::LogPosition shown,
                             NfsStatus status) {
  if (shown > names.cells.durable_position()) {
    auto durable = co_await names.cells.durable(shown);
    if (!durable) {
      request.attributes.reset();  // what they say may never come to be
      request.wcc = {};
      co_return durable.error();
    }
  }
  co_return NfsAnswer::written(status);
}

Task<NfsAnswer> refuse_shown(NameSpace& names, NfsRequest& request, rpc::XdrWriter& out,
                             storage::LogPosition shown, NfsStatus status) {
  nfs3::encode_failure(out, request.procedure, status, request.attributes, request.wcc);
  return answer_shown(names, request, shown, status);
}

}  // namespace slice::dirserver
