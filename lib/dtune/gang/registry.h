// All gangs of a server and the sessions of their members: who is behind which
// connection, what came twice or is missing, which message goes where. Has no
// threads and no sockets; where tick() is late, members are not charged for it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/gang/server.h"

namespace dtune::gang {

// A session is a process of a member, whatever its connections; it ends when
// the member is given up. A process that comes for a place takes it from the
// one before. Not thread-safe.
class GangRegistry {
 public:
  struct Outgoing {
    std::string peer;  // as Listener names it
    std::string bytes;
  };

  // `clock` is the machine's, and outlives this.
  explicit GangRegistry(const Clock& clock = system_clock());
  ~GangRegistry();
  GangRegistry(const GangRegistry&) = delete;
  GangRegistry& operator=(const GangRegistry&) = delete;

  // Whatever the bytes are.
  void receive(const std::string& peer, std::string_view bytes);
  void tick();
  std::vector<Outgoing> take_outbox();

  bool idle() const;  // no gang is open
  bool has_events() const;
  std::vector<GangEvent> take_events();

  // As GangServer's.
  void open(const GangOptions& options);
  void close(const std::string& gang, const std::string& why);
  void close_all(const std::string& why);
  void member_lost(const std::string& gang, int member, const std::string& why);
  GangStatus status(const std::string& gang) const;
  void trace_to(const std::filesystem::path& file);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune::gang
