// What lets other machines into a study that runs here.
#pragma once

#include <memory>
#include <string>

#include "app/console.h"
#include "app/job_access.h"
#include "app/study_loader.h"

#include "dtune/cluster/coordinator.h"
#include "dtune/cluster/join.h"

namespace dtune {

// Whether a study at `database` could let other machines in as `listen` and the
// recipe's nodes ask for, before it is made and an older one moved aside: the
// address, a port that is free, and the keys. Throws as RemoteAccess.
void check_remote_access(const Recipe& recipe, const std::string& listen,
                         const std::filesystem::path& database);

// Owned by the thread that runs the coordinator; outlives it.
class RemoteAccess {
 public:
  // `listen`: tcp://address:port; "" where the recipe names no node beyond this
  // machine: then none is let in. Without `listen` other nodes reach this
  // machine at the address of its first interface, at any port. `job_access`:
  // agents of an engine's jobs come in by its key, and no other keys are
  // needed; null: none do. It must outlive this. Takes the port; clients wait
  // there until announce(). Throws Error(config) where there are no keys (dtune
  // keygen), and as Gateway.
  RemoteAccess(const LoadedStudy& loaded, const std::string& listen,
               JobAccess* job_access);

  bool open() const { return access_ != nullptr; }
  // Lets the coordinator, its gangs and its files be reached.
  void describe(CoordinatorOptions& options) const;
  // Opens the port, lets 'dtune token' make tokens and, where the user has said
  // where to listen, says how another machine joins; `endpoint` is the
  // coordinator's. A token is printed on terminals alone.
  void announce(const Console& console, const std::string& endpoint) const;
  std::string make_token() const { return access_->make_token(); }

 private:
  std::string listen_;
  std::string study_;  // as users name it
  bool asked_;         // for by --listen
  std::string host_;
  JobAccess* job_access_;
  std::unique_ptr<EnrolmentServer> access_;
  std::shared_ptr<Gateway> gateway_;  // of all servers; null: not open()
};

}  // namespace dtune
