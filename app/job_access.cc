#include "app/job_access.h"

#include <system_error>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/cluster/join.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

JobKey new_job_key(const fs::path& file) {
  JobKey key = make_job_key();
  try {
    key.server = load_cluster_keys(file.parent_path().parent_path());
  } catch (const Error&) {
    // There are none: agents of a job need no keys that last.
  }
  return key;
}

// Of a run that was killed: its agents look for this one.
JobKey left_or_new(const fs::path& file) {
  try {
    JobKey key = read_job_key(file.string());
    if (!key.server.secret_key.empty()) return key;
  } catch (const Error&) {
    // None, or none that can be used.
  }
  return new_job_key(file);
}

}  // namespace

JobAccess::JobAccess(fs::path file, const std::string& given)
    : file_(std::move(file)),
      key_(given.empty() ? left_or_new(file_) : read_job_key(given)) {
  if (key_.server.secret_key.empty()) {
    throw Error(ErrorKind::config,
                given +
                    ": is an agent's copy of a job key; the coordinator "
                    "needs the whole (dtune keygen --job)");
  }
  key_.endpoint.clear();
  write_job_key(file_, key_);
}

JobAccess::~JobAccess() {
  std::error_code ignored;
  fs::remove(file_, ignored);
}

void JobAccess::open(const std::string& endpoint) {
  key_.endpoint = endpoint;
  write_job_key(file_, key_);
}

}  // namespace dtune
