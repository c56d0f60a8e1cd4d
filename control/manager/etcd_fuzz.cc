// Fuzzes what reads etcd's answers: whatever comes is an answer or an error. The first byte picks which.
#include "control/manager/etcd_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slice;
  using namespace slice::manager;
  if (size == 0) return 0;
  const std::string_view text = as_text({data + 1, size - 1});
  const etcd::Write write{.key = "k", .contents = {}, .leader_key = "leader"};
  switch (data[0] % 9) {
    case 0:
      (void)etcd::stored_of(text, "k");
      break;
    case 1:
      (void)etcd::leader_of(text, "leader");
      break;
    case 2:
      (void)etcd::stand_result(text, "leader", "me 1", 7);
      break;
    case 3:
      (void)etcd::write_result(text, write);
      break;
    case 4:
      (void)etcd::lease_of(text);
      (void)etcd::kept(text);
      break;
    case 5:
      (void)etcd::token_of(text);
      break;
    case 6:
      (void)etcd::trouble_of(text);
      break;
    case 7:
      (void)etcd::refusal_of(500, text);
      break;
    default:
      if (auto decoded = etcd::from_base64(text); decoded && etcd::to_base64(as_bytes(*decoded)) != text)
        __builtin_trap();
  }
  return 0;
}
