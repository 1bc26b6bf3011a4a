// A worker's view of the coordinator's files. Where both share a file system,
// they are the files themselves and nothing travels. Elsewhere prepared data
// are fetched once into the node's cache, a checkpoint when its trial is taken
// up, and what the worker writes is sent before it is reported.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dtune/base/file.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/curve.h"
#include "dtune/comm/file_client.h"

namespace dtune {

struct NodeFilesOptions {
  CurveKeys keys;  // of this process, where the server requires them
  std::filesystem::path cache;  // "": base/file.h cache_directory()
  int slot = 0;      // of this process, whose slots have folders of their own
  std::string node;  // named where its disk is the problem; "": host_name()
  Duration silence = std::chrono::seconds(5);  // of FileAccess
  Duration patience = std::chrono::seconds(60);
};

// Used by one thread. What blocks takes `stop` and throws TransferStopped when
// it is set; throws as FileClient otherwise.
class NodeFiles {
 public:
  explicit NodeFiles(NodeFilesOptions options);
  ~NodeFiles();  // removes what was fetched, but for the cache

  // Looks whether the coordinator's files are here.
  void welcome(const control::Welcome& welcome);
  // Nothing has to be fetched or sent.
  bool shared() const { return shared_; }

  // Where the prepared data are on this node; fetches them if they are not.
  // Workers of a node that want them at once: one fetches, the others wait.
  std::filesystem::path data(const std::string& theirs,
                             const std::atomic<bool>& stop);
  // The lease with paths of this node: in a folder of this process, so that
  // members of a gang do not take each other's files for their own.
  // Forgets the files of the lease before.
  control::Assign take_up(control::Assign lease);
  // Fetches the checkpoint and the reports kept beside it, if there are any.
  // REQUIRES: `lease` is what take_up() returned, as for all below.
  void fetch_checkpoint(const control::Assign& lease,
                        const std::atomic<bool>& stop);

  // This process has written a checkpoint that the coordinator has not got.
  bool wrote_checkpoint(const control::Assign& lease) const;
  // False where it could not be brought there: the trial can go on all the
  // same. REQUIRES: !shared().
  bool send_checkpoint(const control::Assign& lease,
                       const std::atomic<bool>& stop);
  // The final model and its recipe, if this process has written them.
  void send_model(const control::Assign& lease, const std::atomic<bool>& stop);

 private:
  // Which content lies in a file: another one, or the same written again, has
  // another.
  struct Mark {
    uint64_t inode = 0;
    int64_t changed_ns = 0;
    bool operator==(const Mark&) const = default;
  };
  static std::optional<Mark> mark_of(const std::filesystem::path& path);

  FileClient& client();
  bool holds_data(const std::filesystem::path& path, uint64_t hash);
  void open_folder();
  void clear_folder();
  void close_folder();

  const NodeFilesOptions options_;
  control::Welcome welcome_;  // of the study that is worked on
  bool shared_ = true;
  std::unique_ptr<FileClient> client_;
  std::filesystem::path folder_;  // of this process; "": none yet
  std::unique_ptr<FileLock> folder_lock_;
  std::map<std::filesystem::path, Mark> known_;       // fetched, sent
  std::map<std::filesystem::path, Mark> known_data_;  // found to be right
  bool send_failed_ = false;  // the last time: do not wait as long again
};

}  // namespace dtune
