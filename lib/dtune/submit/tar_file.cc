#include "dtune/submit/tar_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <sodium.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlock = 512;

// Where the fields of a header lie: pubs.opengroup.org, pax, "ustar
// Interchange Format".
struct Field {
  size_t at;
  size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kOwner{108, 8};
constexpr Field kGroup{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kTime{136, 12};
constexpr Field kCheck{148, 8};
constexpr size_t kTypeAt = 156;
constexpr Field kMagic{257, 8};
constexpr Field kPrefix{345, 155};

using Header = std::array<char, kBlock>;

void put_text(Header& header, Field field, std::string_view text) {
  std::memcpy(header.data() + field.at, text.data(),
              std::min(text.size(), field.size));
}

void put_number(Header& header, Field field, uint64_t number) {
  put_text(header, field, fmt::format("{:0{}o}", number, field.size - 1));
}

// A long path is cut at a '/' into prefix and name.
void put_path(Header& header, const std::string& path) {
  if (path.size() <= kName.size) return put_text(header, kName, path);
  const size_t cut = path.find('/', path.size() - kName.size - 1);
  if (cut == std::string::npos || cut > kPrefix.size) {
    throw Error(ErrorKind::data,
                fmt::format("{}: too long a path for an archive", path));
  }
  put_text(header, kPrefix, path.substr(0, cut));
  put_text(header, kName, path.substr(cut + 1));
}

Header header_of(const std::string& path, const TarEntry& entry,
                 uint64_t bytes) {
  Header header{};
  put_path(header, path);
  put_number(header, kMode, static_cast<uint64_t>(entry.mode));
  put_number(header, kOwner, static_cast<uint64_t>(entry.owner));
  put_number(header, kGroup, static_cast<uint64_t>(entry.owner));
  put_number(header, kSize, bytes);
  put_number(header, kTime, 0);
  header[kTypeAt] = entry.kind == TarEntry::Kind::folder ? '5' : '0';
  put_text(header, kMagic, std::string_view("ustar\00000", kMagic.size));
  put_text(header, kCheck, "        ");
  uint64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put_text(header, kCheck, fmt::format("{:06o}", sum));
  header[kCheck.at + 6] = '\0';
  return header;
}

// The folders above each entry, if they are not there already.
TarEntries with_folders(TarEntries entries) {
  TarEntries folders;
  for (const auto& [path, entry] : entries) {
    for (size_t at = path.find('/'); at != std::string::npos;
         at = path.find('/', at + 1)) {
      TarEntry folder;
      folder.kind = TarEntry::Kind::folder;
      folder.mode = 0755;
      folders.emplace(path.substr(0, at + 1), folder);
    }
  }
  entries.merge(folders);
  return entries;
}

class TarWriter {
 public:
  explicit TarWriter(const fs::path& file)
      : file_(file), out_(file, std::ios::binary) {}

  void add(const std::string& path, const TarEntry& entry) {
    if (entry.kind == TarEntry::Kind::copy) return copy(path, entry);
    put(header_text(header_of(path, entry, entry.text.size())));
    put(entry.text);
    pad(entry.text.size());
  }

  WrittenFile finish() {
    put(std::string(2 * kBlock, '\0'));
    out_.close();
    if (!out_) {
      throw Error(ErrorKind::temporary,
                  fmt::format("{}: cannot be written (is there room?)",
                              file_.string()));
    }
    return {hash_.hex(), bytes_};
  }

 private:
  static std::string header_text(const Header& header) {
    return {header.data(), header.size()};
  }

  void put(std::string_view bytes) {
    out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    hash_.add(bytes);
    bytes_ += bytes.size();
  }

  void pad(uint64_t size) {
    put(std::string((kBlock - size % kBlock) % kBlock, '\0'));
  }

  void copy(const std::string& path, const TarEntry& entry) {
    std::error_code error;
    const uint64_t size = fs::file_size(entry.source, error);
    std::ifstream in(entry.source, std::ios::binary);
    if (error || !in) refuse(entry.source);
    put(header_text(header_of(path, entry, size)));
    std::vector<char> part(1 << 20);
    uint64_t left = size;
    while (left > 0) {
      const auto want = std::min<uint64_t>(left, part.size());
      in.read(part.data(), static_cast<std::streamsize>(want));
      if (in.gcount() <= 0) refuse(entry.source);
      put({part.data(), static_cast<size_t>(in.gcount())});
      left -= static_cast<uint64_t>(in.gcount());
    }
    pad(size);
  }

  [[noreturn]] static void refuse(const fs::path& source) {
    throw Error(ErrorKind::data,
                fmt::format("{}: cannot be read", source.string()));
  }

  const fs::path file_;
  std::ofstream out_;
  Sha256 hash_;
  uint64_t bytes_ = 0;
};

}  // namespace

struct Sha256::State {
  crypto_hash_sha256_state sodium;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  crypto_hash_sha256_init(&state_->sodium);
}

Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
  crypto_hash_sha256_update(
      &state_->sodium, reinterpret_cast<const unsigned char*>(bytes.data()),
      bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state_->sodium, digest.data());
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_of(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

WrittenFile write_tar(const fs::path& file, const TarEntries& entries) {
  TarWriter writer(file);
  for (const auto& [path, entry] : with_folders(entries)) {
    writer.add(path, entry);
  }
  return writer.finish();
}

}  // namespace dtune
