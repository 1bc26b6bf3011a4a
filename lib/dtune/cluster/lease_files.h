// The coordinator's files as its leases need them, for nodes that do not share
// its disk: which names mean what, which lease may write what. See
// comm/file_server.h and, for the other end, node_files.h.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "dtune/cluster/protocol.h"
#include "dtune/comm/file_server.h"

namespace dtune {

// A file's name on the wire. Leases of one trial have names of their own, since
// two of them (a trial and its speculative copy) may be under way. The lease's
// capability is part of it: what is not known cannot be asked for.
struct LeaseFileNames {
  explicit LeaseFileNames(const control::Assign& assign);
  std::string checkpoint;
  std::string reports;  // sidecar.h
  std::string model;
  std::string recipe;  // beside the model
  // The one of prepared data.
  static constexpr const char* kData = "data";
};

// The recipe that is kept beside a model.
std::filesystem::path recipe_beside(const std::filesystem::path& model);

struct LeaseFilesOptions {
  ListenOptions listen;
  std::filesystem::path checkpoints;    // the folder
  std::filesystem::path prepared_data;  // "" for commands
};

// Owns the server's thread. Not thread-safe; nothing blocks.
class LeaseFiles {
 public:
  // Throws as Listener, and as write_file_atomic for the probe: a file of a
  // random word among the checkpoints. A worker that reads the same word there
  // shares them.
  explicit LeaseFiles(const LeaseFilesOptions& options);
  ~LeaseFiles();  // removes the probe
  LeaseFiles(const LeaseFiles&) = delete;
  LeaseFiles& operator=(const LeaseFiles&) = delete;

  // Tells a node where its files are.
  void describe(control::Welcome& welcome, bool remote) const;

  // From now on the holder of this lease, a worker of this key ("": on this
  // machine), may fetch and replace what `assign` names. Fills in the lease's
  // capability. Members of a gang have the same lease: once or often.
  void open(control::Assign& assign, const std::string& key);
  // Leases that are not held any more may do nothing from now on.
  using Leases = std::set<std::pair<TrialId, Attempt>>;
  void close_all_but(const Leases& held);

  FileServer::Traffic traffic() const { return server_.traffic(); }

 private:
  struct OpenLease {
    std::string capability;
    std::set<std::string> keys;  // of its workers on other machines
  };
  const LeaseFilesOptions options_;
  std::filesystem::path probe_;
  std::string word_;
  FileServer server_;
  std::map<std::pair<TrialId, Attempt>, OpenLease> open_;
};

}  // namespace dtune
