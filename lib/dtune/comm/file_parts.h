// The two sides of a file on the server's disk: contents that are read in
// pieces by many, and contents that arrive in pieces from one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "dtune/comm/file_hash.h"
#include "dtune/comm/file_protocol.h"

namespace dtune::files {

// Why a request is refused; thrown within the server and its parts.
struct Problem {
  Why why = Why::failed;
  std::string text;
};

// A file descriptor that is closed when it goes out of scope.
class OpenFile {
 public:
  OpenFile() = default;
  // Throws Problem.
  OpenFile(const std::filesystem::path& path, int flags);
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return descriptor_; }

  // Up to `size` bytes; fewer at the file's end. Throws Problem.
  std::string read(uint64_t offset, size_t size) const;
  void write(uint64_t offset, std::string_view bytes) const;
  uint64_t size() const;

 private:
  int descriptor_ = -1;
};

// Hash of the first `size` bytes. Throws Problem where there are fewer.
FileHash hash_of(const OpenFile& file, uint64_t size);

// Contents that are being read. A file that is replaced (by rename) stays
// readable as it was until the new one is looked for. Not thread-safe.
class Contents {
 public:
  // What is there now; reads all of it where it is new.
  Found find(const Find& message, const std::filesystem::path& path);
  // Throws Problem(changed) where another content is there by now.
  Chunk read(const Read& message, const std::filesystem::path& path);
  void forget(const std::string& name) { open_.erase(name); }

 private:
  struct Content {
    OpenFile file;
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t changed_ns = 0;
    uint64_t size = 0;
    uint64_t hash = 0;
    uint64_t used = 0;  // when: the oldest is forgotten first
  };
  static constexpr size_t kMostOpen = 16;

  const Content& look(const std::string& name,
                      const std::filesystem::path& path);
  void make_room();

  std::map<std::string, Content> open_;
  uint64_t uses_ = 0;
};

// Contents that arrive. What is there of one lies in
// "<target>.<hash>.<ticket>.part" and replaces the target when it is whole and
// right. Not thread-safe.
class Arrivals {
 public:
  struct Target {
    std::filesystem::path path;
    bool durable = false;  // the content is on the disk before it is stored
  };

  // Begins, or goes on with what is there, also after a restart. Accepted or
  // Stored. Throws Problem.
  Message put(const std::string& peer, const Put& message,
              const Target& target);
  // `peer`: the one that put it last; others are refused. `ticket`: that is
  // good now.
  Message write(const std::string& peer, const Write& message,
                std::optional<uint64_t> ticket);
  // What has arrived so far is removed.
  void forget(const std::string& name);

 private:
  struct Arrival {
    std::string peer;
    Put put;
    Target target;
    std::filesystem::path part;
    OpenFile file;
    uint64_t done = 0;
    FileHash hash;
    bool stored = false;
  };

  void begin(Arrival& arrival);
  void check_room(const Arrival& arrival);
  Message answer(Arrival& arrival, uint64_t request);
  void store(Arrival& arrival);

  std::map<std::string, Arrival> arrivals_;
};

// Files that Arrivals of servers that are gone have left in `folder`.
void remove_parts(const std::filesystem::path& folder);

}  // namespace dtune::files
