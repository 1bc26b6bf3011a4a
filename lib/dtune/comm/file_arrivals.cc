// The part of comm/file_parts.h that deals with contents that arrive.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/comm/file_parts.h"

namespace dtune::files {

namespace fs = std::filesystem;

namespace {

// A file that was renamed has its new name after a power cut, too.
void sync_folder_of(const fs::path& path) {
  const int folder =
      ::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

}  // namespace

Message Arrivals::put(const std::string& peer, const Put& message,
                      const Target& target) {
  const auto known = arrivals_.find(message.name);
  if (known != arrivals_.end()) {
    const Arrival& arrival = known->second;
    const bool same = arrival.put.ticket == message.ticket &&
                      arrival.put.size == message.size &&
                      arrival.put.hash == message.hash;
    if (!same || arrival.target.path != target.path) forget(message.name);
  }
  Arrival& arrival = arrivals_[message.name];
  arrival.peer = peer;
  arrival.put = message;
  arrival.target = target;
  try {
    if (!arrival.stored && arrival.file.get() < 0) begin(arrival);
    return answer(arrival, message.request);
  } catch (const Problem&) {
    forget(message.name);
    throw;
  }
}

// What an earlier connection or server has left of the same content is taken
// as far as it goes; the sum over all decides in the end.
void Arrivals::begin(Arrival& arrival) {
  arrival.part = arrival.target.path;
  arrival.part +=
      fmt::format(".{:016x}.{}.part", arrival.put.hash, arrival.put.ticket);
  arrival.file = OpenFile(arrival.part, O_RDWR | O_CREAT);
  arrival.done = arrival.file.size();
  if (arrival.done > arrival.put.size) {
    arrival.done = 0;
    if (::ftruncate(arrival.file.get(), 0) != 0) {
      throw Problem{Why::failed, arrival.part.string() + ": cannot be emptied"};
    }
  }
  check_room(arrival);
  arrival.hash = hash_of(arrival.file, arrival.done);
}

void Arrivals::check_room(const Arrival& arrival) {
  const uint64_t wanted = arrival.put.size - arrival.done;
  const fs::path folder = arrival.target.path.parent_path();
  const uint64_t free = free_bytes(folder);
  if (wanted <= free) return;
  throw Problem{Why::full, fmt::format("{}: {} bytes are to come, {} are free",
                                       folder.string(), wanted, free)};
}

Message Arrivals::write(const std::string& peer, const Write& message,
                        std::optional<uint64_t> ticket) {
  const auto known = arrivals_.find(message.name);
  if (known == arrivals_.end()) {
    throw Problem{Why::changed, message.name + ": was not announced"};
  }
  Arrival& arrival = known->second;
  if (arrival.put.ticket != ticket) {
    forget(message.name);
    throw Problem{Why::forbidden, message.name + ": the lease is over"};
  }
  if (arrival.stored || arrival.peer != peer) {
    throw Problem{Why::changed, message.name + ": is sent by another"};
  }
  if (message.offset != arrival.done ||
      message.data.size() > arrival.put.size - arrival.done) {
    throw Problem{Why::changed, message.name + ": does not fit what is there"};
  }
  try {
    arrival.file.write(arrival.done, message.data);
    arrival.done += message.data.size();
    arrival.hash.add(message.data);
    return answer(arrival, message.request);
  } catch (const Problem&) {
    forget(message.name);  // room on a full disk is worth more than the begin
    throw;
  }
}

Message Arrivals::answer(Arrival& arrival, uint64_t request) {
  if (!arrival.stored && arrival.done == arrival.put.size) store(arrival);
  if (arrival.stored) return Stored{request};
  return Accepted{request, arrival.done};
}

void Arrivals::store(Arrival& arrival) {
  const Target& target = arrival.target;
  const std::string name = target.path.string();
  if (arrival.hash.value() != arrival.put.hash) {
    throw Problem{Why::changed, name + ": is not what was announced"};
  }
  if ((target.durable && ::fdatasync(arrival.file.get()) != 0) ||
      ::rename(arrival.part.c_str(), target.path.c_str()) != 0) {
    const int code = errno;
    throw Problem{code == ENOSPC || code == EDQUOT ? Why::full : Why::failed,
                  name + ": " + errno_text(code)};
  }
  if (target.durable) sync_folder_of(target.path);
  arrival.file = OpenFile();
  arrival.stored = true;
}

void Arrivals::forget(const std::string& name) {
  const auto known = arrivals_.find(name);
  if (known == arrivals_.end()) return;
  if (!known->second.stored && !known->second.part.empty()) {
    ::unlink(known->second.part.c_str());
  }
  arrivals_.erase(known);
}

}  // namespace dtune::files
