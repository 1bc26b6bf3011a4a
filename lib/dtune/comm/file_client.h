// Fetches files from a FileServer and brings files to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "dtune/base/clock.h"
#include "dtune/comm/curve.h"

namespace dtune {

struct FileAccess {
  std::string endpoint;
  std::optional<CurveClient> curve;  // where the server has keys
  std::string node;  // this machine, named where its own disk is the problem
  // A connection on which nothing comes for this long is made anew.
  Duration silence = std::chrono::seconds(5);
  // Without any progress for this long a transfer has failed.
  Duration patience = std::chrono::seconds(60);
};

// Thrown when `stop` was set in the middle: what has come so far is kept.
struct TransferStopped {};

// Blocks; used by one thread. Transfers survive broken connections, restarts of
// the server and of this process: what is there of a file lies beside it, as
// "<file>.<hash>.part".
//
// All throw Error(temporary) where the server does not answer, or a disk is
// full (it says whose); Error(comm) where the server refuses or what arrives is
// damaged again and again.
class FileClient {
 public:
  explicit FileClient(FileAccess access);
  ~FileClient();
  FileClient(const FileClient&) = delete;
  FileClient& operator=(const FileClient&) = delete;

  struct Info {
    uint64_t size = 0;
    uint64_t hash = 0;  // comm/file_hash.h
  };
  // Empty where there is no such file just now.
  std::optional<Info> find(const std::string& name,
                           const std::atomic<bool>& stop);

  // Replaces `to` when all is there and right; false where the server has no
  // such file. One process at a time may fetch to `to`.
  bool download(const std::string& name, const std::filesystem::path& to,
                const std::atomic<bool>& stop);

  // Returns when the server has stored it. `ticket`: SharedFile::ticket.
  void upload(const std::string& name, uint64_t ticket,
              const std::filesystem::path& from, const std::atomic<bool>& stop);

  // As find(), of a file here. Throws Error(data) where it cannot be read.
  static Info describe(const std::filesystem::path& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
