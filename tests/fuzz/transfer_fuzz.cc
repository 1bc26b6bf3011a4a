// The files that a server takes in and hands out, in pieces that clients could
// send. What replaces a file is always the whole of what was announced.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

#include "choices.h"

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/comm/file_hash.h"
#include "dtune/comm/file_parts.h"

namespace {

using namespace dtune;         // NOLINT: a program of its own
using namespace dtune::files;  // NOLINT
using fuzz::Choices;

namespace fs = std::filesystem;

constexpr size_t kMostMessages = 60;
constexpr uint64_t kTicket = 7;

std::string content(uint64_t kind) {
  return std::string(100 * (kind + 1), static_cast<char>('a' + kind));
}

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

// As it comes over the wire: what decode() refuses does not arrive.
template <class M>
M sent(M message) {
  return std::get<M>(decode(encode(std::move(message))));
}

class Transfer {
 public:
  Transfer(Choices& from, const fs::path& folder)
      : from_(from), path_(folder / "file") {
    fs::remove(path_);
  }

  void run() {
    for (size_t i = 0; i < kMostMessages && !from_.done(); ++i) {
      try {
        turn();
      } catch (const Problem&) {
        // What the server answers.
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::comm) throw;
      }
      check();
    }
    arrivals_.forget("file");
    if (fs::exists(path_) && arrived_.empty()) std::abort();
  }

 private:
  std::string peer() { return from_.rarely(4) ? "other" : "client"; }

  void turn() {
    switch (from_.below(6)) {
      case 0:
        return put();
      case 1:
      case 2:
        return write();
      case 3:
        contents_.find({1, "file"}, path_);
        return;
      case 4:
        return read();
      default:
        if (from_.rarely(8)) arrivals_.forget("file");
    }
  }

  void put() {
    kind_ = from_.below(3);
    const std::string whole = content(kind_);
    done_ = 0;
    const Put message{
        1, "file", from_.rarely(8) ? 1 : kTicket,
        from_.rarely(8) ? static_cast<uint64_t>(from_.number()) : whole.size(),
        from_.rarely(8) ? 0 : file_hash(whole)};
    follow(arrivals_.put(peer(), sent(message), {path_, from_.rarely(2)}));
  }

  // The next bytes; sometimes others, or elsewhere.
  void write() {
    const std::string whole = content(kind_);
    const uint64_t at =
        from_.rarely(8) ? static_cast<uint64_t>(from_.number()) : done_;
    std::string bytes =
        at < whole.size() ? whole.substr(at, 1 + from_.below(200)) : "xyz";
    if (from_.rarely(8)) bytes[0] = '?';
    const auto ticket = from_.rarely(8) ? std::nullopt : std::optional(kTicket);
    follow(arrivals_.write(
        peer(), sent(Write{1, "file", at, file_hash(bytes), bytes}), ticket));
  }

  void read() {
    const std::string before = fs::exists(path_) ? read_file(path_) : "";
    const Read message{1, "file", file_hash(before),
                       static_cast<uint64_t>(from_.number()),
                       static_cast<uint32_t>(from_.number())};
    const Chunk chunk = contents_.read(sent(message), path_);
    if (before.find(chunk.data) == std::string::npos) std::abort();
  }

  void follow(const Message& answer) {
    if (const auto* accepted = std::get_if<Accepted>(&answer)) {
      done_ = accepted->offset;
    } else if (std::holds_alternative<Stored>(answer)) {
      arrived_.insert(content(kind_));
    }
  }

  void check() {
    if (!fs::exists(path_)) return;
    const std::string there = read_file(path_);
    for (uint64_t kind = 0; kind < 3; ++kind) {
      if (there == content(kind)) return;
    }
    std::abort();
  }

  Choices& from_;
  const fs::path path_;
  Arrivals arrivals_;
  Contents contents_;
  uint64_t kind_ = 0;
  uint64_t done_ = 0;
  std::set<std::string> arrived_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryDirectory folder;
  Choices from(data, size);
  Transfer(from, folder.path()).run();
  return 0;
}
