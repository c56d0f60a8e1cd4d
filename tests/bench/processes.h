// What a process on this machine has used, from /proc.
#ifndef SLICE_TESTS_BENCH_PROCESSES_H
#define SLICE_TESTS_BENCH_PROCESSES_H

#include <cstdint>
#include <map>
#include <string>

namespace slice::client {

// "NAME=PID,NAME=PID".
std::map<std::string, int> pids_from(const std::string& text);
// Seconds of processor time that a process has used, all threads together, user and kernel; 0 where there is
// no such process. A tick (10 ms) is the resolution.
double processor_seconds(int pid);
// A line of /proc/PID/status in bytes, such as "VmHWM" (the most memory it ever had) or "VmRSS"; 0 where
// there is none.
std::uint64_t memory_bytes(int pid, const std::string& line);

}  // namespace slice::client

#endif  // SLICE_TESTS_BENCH_PROCESSES_H
