#include "dtune/parameter_server/ps_server.h"

#include "dtune/parameter_server/ps_follower.h"
#include "dtune/parameter_server/ps_leader.h"

namespace dtune {

std::unique_ptr<PsServer> make_ps_server(const SocketContext& context,
                                         const PsServerOptions& options) {
  if (options.server == 0) return std::make_unique<PsLeader>(context, options);
  return std::make_unique<PsFollower>(context, options);
}

}  // namespace dtune
