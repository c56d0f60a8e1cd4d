#include "service/backing/announce.h"

#include "service/manager_session.h"
#include "wire/failover.h"

namespace slice::service {

Task<void> announce(Announcement seams) {
  using Standing = BackingSet::Standing;
  while (!seams.set.is_open() && !seams.over()) {
    const Standing standing = seams.set.standing();
    if (standing == Standing::kChosen || (seams.first_place && standing == Standing::kNotKnown)) {
      (void)co_await seams.managers.call<wire::HeartbeatResult>(
          seams.channel, wire::ManagerProcedure::kHeartbeat, seams.told(), ManagerSession::kStartTimeout);
    }
    co_await seams.loop.sleep(standing == Standing::kStandsBy ? wire::kStandbyInterval
                                                              : ManagerSession::kInterval);
  }
}

}  // namespace slice::service
