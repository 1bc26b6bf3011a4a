// How the agents of an engine's jobs come into a run: by a key in a file of the
// study's folder, which is there while the run lasts.
#pragma once

#include <filesystem>
#include <string>

#include "dtune/cluster/job_key.h"

namespace dtune {

// Not thread-safe.
class JobAccess {
 public:
  // `given`: a key that was made at submission (a file, or "-" for stdin); "":
  // that which a run that was killed has left in `file`, so that its agents are
  // let in again, else a new one. The coordinator's own pair is that of 'dtune
  // keygen' where there is one. Writes `file`, without an address as yet.
  // Errors as read_job_key and write_job_key.
  JobAccess(std::filesystem::path file, const std::string& given);
  // Removes the file: the run is over.
  ~JobAccess();
  JobAccess(const JobAccess&) = delete;
  JobAccess& operator=(const JobAccess&) = delete;

  const JobKey& key() const { return key_; }
  const std::filesystem::path& file() const { return file_; }
  // Agents find the coordinator there from now on.
  void open(const std::string& endpoint);

 private:
  const std::filesystem::path file_;
  JobKey key_;
};

}  // namespace dtune
