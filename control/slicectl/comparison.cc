#include "control/slicectl/comparison.h"

namespace slice::slicectl {
namespace {

Agreement agreement(std::uint64_t digest, std::uint64_t expected) {
  if (digest == 0) return Agreement::kNone;
  return digest == expected ? Agreement::kSame : Agreement::kDiffers;
}

}  // namespace

std::string_view agreement_text(Agreement agreement) {
  switch (agreement) {
    case Agreement::kSame:
      return "same";
    case Agreement::kDiffers:
      return "DIFFERS";
    case Agreement::kNone:
      return "NONE";
    case Agreement::kUnknown:
      return "silent";
    case Agreement::kNotApplicable:
      return "-";
  }
  return "?";
}

std::vector<ComparedProcess> compare(const wire::Tables& tables, const wire::MembersResult& members) {
  const std::uint64_t digest = wire::digest(tables);
  std::vector<ComparedProcess> compared;
  for (const wire::Member& member : members.members) {
    if (member.entry.role == wire::Role::kRemoved) continue;
    ComparedProcess process{
        .name = member.entry.name, .role = member.entry.role, .generation = member.last.generation};
    const bool has_sites = static_cast<std::size_t>(process.role) < wire::kSiteClasses;
    const std::vector<std::uint32_t> sites = wire::sites_of(tables, process.name);
    process.sites = sites.size();
    if (!member.alive) {
      process.record = has_sites ? Agreement::kUnknown : Agreement::kNotApplicable;
    } else {
      process.tables = agreement(member.last.tables_digest, digest);
      if (has_sites) process.record = agreement(member.last.record_digest, wire::digest(sites));
    }
    compared.push_back(std::move(process));
  }
  return compared;
}

Agreement overall(const std::vector<ComparedProcess>& processes) {
  Agreement all = Agreement::kSame;
  for (const ComparedProcess& process : processes) {
    for (Agreement each : {process.tables, process.record}) {
      if (each == Agreement::kDiffers || each == Agreement::kNone) return Agreement::kDiffers;
      if (each == Agreement::kUnknown) all = Agreement::kUnknown;
    }
  }
  return all;
}

}  // namespace slice::slicectl
