#include "dtune/comm/file_client.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/comm/file_connection.h"
#include "dtune/comm/file_parts.h"

namespace dtune {
namespace {

using namespace files;  // NOLINT: this file is one end of the protocol
namespace fs = std::filesystem;

constexpr int kMostDamaged = 3;  // whole files whose sum was wrong

[[noreturn]] void fail_here(const FileAccess& access, const fs::path& path,
                            const Problem& problem) {
  const std::string where =
      access.node.empty() ? path.string() : access.node + ": " + path.string();
  if (problem.why == Why::full) {
    throw Error(ErrorKind::temporary,
                fmt::format("{}: the disk is full (free some space there; {})",
                            where, problem.text));
  }
  throw Error(ErrorKind::data, fmt::format("{}: {}", where, problem.text));
}

// What is there of a file that is being fetched.
class Part {
 public:
  Part(const fs::path& target, const FileClient::Info& info)
      : target_(target), info_(info), path_(target) {
    path_ += fmt::format(".{:016x}.part", info.hash);
    file_ = OpenFile(path_, O_RDWR | O_CREAT);
    done_ = file_.size();
    if (done_ > info.size) clear();
    hash_ = hash_of(file_, done_);
  }

  uint64_t done() const { return done_; }
  bool whole() const { return done_ == info_.size; }
  void add(const std::string& bytes) {
    file_.write(done_, bytes);
    hash_.add(bytes);
    done_ += bytes.size();
  }
  // False where it is not what was announced: removed.
  bool store() {
    if (hash_.value() != info_.hash) {
      remove();
      return false;
    }
    // What bears its name and size is used without a second look.
    const bool synced = ::fdatasync(file_.get()) == 0;
    if (synced && ::rename(path_.c_str(), target_.c_str()) == 0) return true;
    throw Problem{Why::failed, errno_text(errno)};
  }
  void remove() { ::unlink(path_.c_str()); }

 private:
  void clear() {
    if (::ftruncate(file_.get(), 0) != 0) {
      throw Problem{Why::failed, "cannot be emptied"};
    }
    done_ = 0;
  }

  const fs::path target_;
  const FileClient::Info info_;
  fs::path path_;
  OpenFile file_;
  uint64_t done_ = 0;
  FileHash hash_;
};

}  // namespace

struct FileClient::Impl {
  explicit Impl(FileAccess given)
      : access(std::move(given)), connection(access) {}

  std::optional<Info> look(const std::string& name,
                           const std::atomic<bool>& stop);
  void fetch(const std::string& name, Part& part, const Info& info,
             const std::atomic<bool>& stop);
  void take(Part& part, const Info& info, Message answer);
  bool bring(Put put, const OpenFile& file, uint64_t& most,
             const std::atomic<bool>& stop);

  const FileAccess access;
  FileConnection connection;
};

FileClient::FileClient(FileAccess access)
    : impl_(new Impl(std::move(access))) {}

FileClient::~FileClient() = default;

std::optional<FileClient::Info> FileClient::find(
    const std::string& name, const std::atomic<bool>& stop) {
  impl_->connection.progressed();
  return impl_->look(name, stop);
}

std::optional<FileClient::Info> FileClient::Impl::look(
    const std::string& name, const std::atomic<bool>& stop) {
  while (true) {
    try {
      connection.send(Find{connection.begin(stop), name});
      const Message answer = connection.receive();
      if (const auto* found = std::get_if<Found>(&answer)) {
        return Info{found->size, found->hash};
      }
      const auto* refusal = std::get_if<Refused>(&answer);
      if (refusal != nullptr && refusal->why == Why::missing) {
        return std::nullopt;
      }
      if (refusal != nullptr) connection.refused(*refusal);
      connection.failed("an answer to no request");
    } catch (const StartOver&) {
    }
  }
}

bool FileClient::download(const std::string& name, const fs::path& to,
                          const std::atomic<bool>& stop) {
  impl_->connection.progressed();
  try {
    for (int damaged = 0; damaged < kMostDamaged;) {
      const auto info = impl_->look(name, stop);
      if (!info) return false;
      Part part(to, *info);
      if (!part.whole()) impl_->fetch(name, part, *info, stop);
      if (!part.whole()) continue;
      if (part.store()) return true;
      ++damaged;
    }
  } catch (const Problem& problem) {
    fail_here(impl_->access, to, problem);
  }
  throw Error(ErrorKind::comm,
              fmt::format("{}: {} was damaged on its way {} times",
                          impl_->access.endpoint, name, kMostDamaged));
}

// As far as it goes without starting over.
void FileClient::Impl::fetch(const std::string& name, Part& part,
                             const Info& info, const std::atomic<bool>& stop) {
  const uint64_t request = connection.begin(stop);
  uint64_t asked = part.done();
  try {
    while (!part.whole()) {
      while (asked < info.size && asked - part.done() < kWindow * kChunkBytes) {
        const uint64_t size =
            std::min<uint64_t>(info.size - asked, kChunkBytes);
        connection.send(
            Read{request, name, info.hash, asked, static_cast<uint32_t>(size)});
        asked += size;
      }
      take(part, info, connection.receive());
    }
  } catch (const StartOver&) {
  } catch (const Problem& problem) {
    // Room on a full disk is worth more than the begin of a file.
    if (problem.why == Why::full) part.remove();
    throw;
  }
}

void FileClient::Impl::take(Part& part, const Info& info, Message answer) {
  if (const auto* refusal = std::get_if<Refused>(&answer)) {
    const bool gone =
        refusal->why == Why::changed || refusal->why == Why::missing;
    if (!gone) connection.refused(*refusal);
    part.remove();  // there is no rest of it
    connection.failed(refusal->text);
  }
  const auto* chunk = std::get_if<Chunk>(&answer);
  if (chunk == nullptr || chunk->offset != part.done() || chunk->data.empty() ||
      chunk->data.size() > info.size - part.done()) {
    connection.failed("a chunk was lost");
  }
  part.add(chunk->data);
  connection.progressed();
}

void FileClient::upload(const std::string& name, uint64_t ticket,
                        const fs::path& from, const std::atomic<bool>& stop) {
  impl_->connection.progressed();
  uint64_t most = 0;
  try {
    while (true) {
      // Anew each time: it may have been written to meanwhile.
      const OpenFile file(from, O_RDONLY);
      const uint64_t size = file.size();
      const Put put{0, name, ticket, size, hash_of(file, size).value()};
      if (impl_->bring(put, file, most, stop)) return;
    }
  } catch (const Problem& problem) {
    fail_here(impl_->access, from, problem);
  }
}

// As far as it goes without starting over; true: it is stored. `most`: bytes
// that the server has had of it at one time.
bool FileClient::Impl::bring(Put put, const OpenFile& file, uint64_t& most,
                             const std::atomic<bool>& stop) {
  put.request = connection.begin(stop);
  connection.send(put);
  std::optional<uint64_t> sent;
  try {
    while (true) {
      const Message answer = connection.receive();
      if (std::holds_alternative<Stored>(answer)) return true;
      if (const auto* refusal = std::get_if<Refused>(&answer)) {
        connection.refused(*refusal);
      }
      const auto* accepted = std::get_if<Accepted>(&answer);
      if (accepted == nullptr || accepted->offset > put.size) {
        connection.failed("an answer to no request");
      }
      const uint64_t taken = accepted->offset;
      if (taken > most) connection.progressed();
      most = std::max(most, taken);
      if (!sent) sent = taken;
      while (*sent < put.size && *sent < taken + kWindow * kChunkBytes) {
        const uint64_t size = std::min<uint64_t>(put.size - *sent, kChunkBytes);
        connection.send(Write{put.request, put.name, *sent, 0,
                              file.read(*sent, static_cast<size_t>(size))});
        *sent += size;
      }
    }
  } catch (const StartOver&) {
    return false;
  }
}

FileClient::Info FileClient::describe(const fs::path& path) {
  try {
    const OpenFile file(path, O_RDONLY);
    const uint64_t size = file.size();
    return {size, hash_of(file, size).value()};
  } catch (const Problem& problem) {
    throw Error(ErrorKind::data, path.string() + ": " + problem.text);
  }
}

}  // namespace dtune
