#include "dtune/cluster/node_files.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/join.h"
#include "dtune/cluster/lease_files.h"
#include "dtune/cluster/log.h"
#include "dtune/cluster/sidecar.h"
#include "dtune/comm/file_hash.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr Duration kAfterFailure = std::chrono::seconds(5);

// Waits for its turn while another process of this node fetches the same; the
// kernel ends the turn of one that dies.
class Turn {
 public:
  Turn(const fs::path& path, const std::atomic<bool>& stop)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail(path, errno);
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const int code = errno;
      const bool held = code == EWOULDBLOCK || code == EINTR;
      if (held && !stop) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      ::close(descriptor_);
      if (held) throw TransferStopped();
      fail(path, code);
    }
  }
  ~Turn() { ::close(descriptor_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  [[noreturn]] static void fail(const fs::path& path, int code) {
    const bool full = code == ENOSPC || code == EDQUOT;
    throw Error(full ? ErrorKind::temporary : ErrorKind::data,
                fmt::format("{}: {} (set XDG_CACHE_HOME to a folder that can "
                            "be written)",
                            path.string(), errno_text(code)));
  }

  int descriptor_;
};

bool reads_word(const control::Welcome& welcome) {
  try {
    return read_file(welcome.probe, 1000) == welcome.probe_word;
  } catch (const Error&) {
    return false;
  }
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return;
  throw Error(error == std::errc::no_space_on_device ? ErrorKind::temporary
                                                     : ErrorKind::data,
              fmt::format("{}: cannot be created: {} (set XDG_CACHE_HOME to a "
                          "folder that can be written)",
                          path.string(), error.message()));
}

// What workers that were killed have left behind.
void clear_abandoned(const fs::path& folders) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folders, error)) {
    if (entry.path().extension() == ".lock") continue;
    fs::path lock = entry.path();
    lock += ".lock";
    try {
      const FileLock ours(lock);
      std::error_code ignored;
      fs::remove_all(entry.path(), ignored);
      fs::remove(lock, ignored);
    } catch (const Error&) {
      // Another process works there.
    }
  }
}

}  // namespace

NodeFiles::NodeFiles(NodeFilesOptions options)
    : options_([&options] {
        if (options.cache.empty()) options.cache = cache_directory();
        if (options.node.empty()) options.node = host_name();
        return std::move(options);
      }()) {}

NodeFiles::~NodeFiles() { close_folder(); }

void NodeFiles::welcome(const control::Welcome& welcome) {
  const bool moved = welcome.files_endpoint != welcome_.files_endpoint ||
                     welcome.files_key != welcome_.files_key;
  const bool another = welcome.session != welcome_.session;
  welcome_ = welcome;
  if (moved) client_.reset();
  if (another) known_.clear();
  shared_ = welcome.files_endpoint.empty() || reads_word(welcome);
}

FileClient& NodeFiles::client() {
  if (client_ != nullptr) return *client_;
  FileAccess access;
  access.endpoint = welcome_.files_endpoint;
  if (!welcome_.files_key.empty()) {
    access.curve = CurveClient{welcome_.files_key, options_.keys};
  }
  access.node = options_.node;
  access.silence = options_.silence;
  access.patience = send_failed_ ? std::min(kAfterFailure, options_.patience)
                                 : options_.patience;
  client_ = std::make_unique<FileClient>(std::move(access));
  return *client_;
}

fs::path NodeFiles::data(const std::string& theirs,
                         const std::atomic<bool>& stop) {
  if (theirs.empty() || welcome_.files_endpoint.empty()) return theirs;
  // Checkpoints may be shared where the coordinator's cache is not.
  std::error_code ignored;
  if (shared_ && fs::exists(theirs, ignored)) return theirs;
  const auto info = client().find(LeaseFileNames::kData, stop);
  if (!info) {
    throw Error(ErrorKind::temporary,
                theirs + ": the coordinator's prepared data are gone");
  }
  const fs::path folder = options_.cache / "fetched";
  make_folder(folder);
  fs::path path =
      folder / fmt::format("{:016x}-{}.data", info->hash, info->size);
  if (holds_data(path, info->hash)) return path;
  fs::path lock = path;
  lock.replace_extension(".lock");
  const Turn turn(lock, stop);
  if (holds_data(path, info->hash)) return path;  // another has fetched it
  fs::remove(path, ignored);                      // damaged
  log_info("fetching the data ({:.1f} MiB)",
           static_cast<double>(info->size) / (1 << 20));
  client().download(LeaseFileNames::kData, path, stop);
  return path;
}

// Reads all of it once: others write to the cache, and disks forget.
bool NodeFiles::holds_data(const fs::path& path, uint64_t hash) {
  const auto mark = mark_of(path);
  if (!mark) return false;
  const auto known = known_data_.find(path);
  if (known != known_data_.end() && known->second == *mark) return true;
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  if (file_hash({text, bytes.size()}) != hash) return false;
  known_data_[path] = *mark;
  return true;
}

// "<cache>/workers/<pid:start>-<slot>", and a lock that says whether it is alive.
void NodeFiles::open_folder() {
  if (!folder_.empty()) return;
  const fs::path folders = options_.cache / "workers";
  make_folder(folders);
  clear_abandoned(folders);
  fs::path folder =
      folders / fmt::format("{}-{}", process_name(getpid()), options_.slot);
  fs::path lock = folder;
  lock += ".lock";
  folder_lock_ = std::make_unique<FileLock>(lock);
  make_folder(folder);
  folder_ = std::move(folder);
}

void NodeFiles::close_folder() {
  if (folder_.empty()) return;
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  fs::path lock = folder_;
  fs::remove(lock += ".lock", ignored);
}

void NodeFiles::clear_folder() {
  known_.clear();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    std::error_code unimportant;
    fs::remove(entry.path(), unimportant);
  }
}

control::Assign NodeFiles::take_up(control::Assign lease) {
  if (shared_) return lease;
  open_folder();
  clear_folder();
  const auto own = [this, &lease](std::string& path) {
    if (path.empty()) return;
    path = folder_ / fmt::format("{}-{}", lease.trial,
                                 fs::path(path).filename().string());
  };
  own(lease.checkpoint);
  own(lease.model_file);
  return lease;
}

void NodeFiles::fetch_checkpoint(const control::Assign& lease,
                                 const std::atomic<bool>& stop) {
  if (shared_ || lease.checkpoint.empty()) return;
  const LeaseFileNames names(lease);
  if (!client().download(names.checkpoint, lease.checkpoint, stop)) return;
  if (const auto mark = mark_of(lease.checkpoint)) {
    known_[lease.checkpoint] = *mark;
  }
  client().download(names.reports, sidecar_path(lease.checkpoint), stop);
}

bool NodeFiles::wrote_checkpoint(const control::Assign& lease) const {
  const auto mark = mark_of(lease.checkpoint);
  if (!mark) return false;
  const auto known = known_.find(lease.checkpoint);
  return known == known_.end() || !(known->second == *mark);
}

bool NodeFiles::send_checkpoint(const control::Assign& lease,
                                const std::atomic<bool>& stop) {
  const auto mark = mark_of(lease.checkpoint);
  if (!mark) return false;
  const LeaseFileNames names(lease);
  const auto ticket = static_cast<uint64_t>(lease.attempt);
  try {
    // The reports first: a checkpoint that is ahead of them is not trusted.
    const fs::path reports = sidecar_path(lease.checkpoint);
    if (fs::exists(reports)) {
      client().upload(names.reports, ticket, reports, stop);
    }
    client().upload(names.checkpoint, ticket, lease.checkpoint, stop);
    known_[lease.checkpoint] = *mark;
    if (std::exchange(send_failed_, false)) client_.reset();
    return true;
  } catch (const Error& e) {
    log_warning("trial {}: its checkpoint could not be sent: {}", lease.trial,
                e.what());
    send_failed_ = true;
    client_.reset();
    return false;
  }
}

void NodeFiles::send_model(const control::Assign& lease,
                           const std::atomic<bool>& stop) {
  if (shared_ || lease.model_file.empty() || !fs::exists(lease.model_file)) {
    return;
  }
  const LeaseFileNames names(lease);
  const auto ticket = static_cast<uint64_t>(lease.attempt);
  const fs::path recipe = recipe_beside(lease.model_file);
  if (fs::exists(recipe)) {
    client().upload(names.recipe, ticket, recipe, stop);
  }
  client().upload(names.model, ticket, lease.model_file, stop);
}

std::optional<NodeFiles::Mark> NodeFiles::mark_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return Mark{info.st_ino,
              info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace dtune
