// The internal programs' numbers. Their messages: authority.h, object.h, coordinator.h, manager.h, admin.h,
// scan.h, moves.h, backing.h. All are version 1, sealed with the ensemble's key, idempotent, and refused from
// outside (rpc::Outcome::kDenied).
#ifndef SLICE_WIRE_INTERNAL_H
#define SLICE_WIRE_INTERNAL_H

#include <cstdint>

namespace slice::wire {

inline constexpr std::uint32_t kAuthorityProgram = 0x20534c01;    // slice-dird
inline constexpr std::uint32_t kObjectProgram = 0x20534c02;       // slice-smallfiled, slice-stored
inline constexpr std::uint32_t kCoordinatorProgram = 0x20534c03;  // slice-coordd
inline constexpr std::uint32_t kManagerProgram = 0x20534c04;      // slice-managerd
inline constexpr std::uint32_t kAdminProgram = 0x20534c05;        // every process
inline constexpr std::uint32_t kDirectoryProgram = 0x20534c06;    // slice-dird, among themselves
inline constexpr std::uint32_t kScanProgram = 0x20534c07;         // slice-dird
inline constexpr std::uint32_t kMovesProgram = 0x20534c08;        // every server that has sites
inline constexpr std::uint32_t kBackingProgram = 0x20534c09;      // slice-stored
inline constexpr std::uint32_t kLocksProgram = 0x20534c0b;        // slice-dird, slice-proxyd
inline constexpr std::uint32_t kInternalVersion = 1;
// Not internal: for the clients that an export names (wire/routes.h).
inline constexpr std::uint32_t kRoutesProgram = 0x20534c0a;
inline constexpr std::size_t kHandleSize = 56;

}  // namespace slice::wire

#endif  // SLICE_WIRE_INTERNAL_H
